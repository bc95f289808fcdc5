# A virtual environment of its own, with the package installed as a user would install it: nothing is imported from src.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# Folders too, so that a file that was removed is noticed.
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -name __pycache__ -prune -o -print)

.PHONY: help demo test test-oldest tests-alone test-sets coverage fuzz sanitize lint style docs benchmarks paper compare dist dev lock review clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up and run the demonstration"
	@echo "make test    set up, then lint and run the tests"
	@echo "make test-oldest   the tests with the oldest versions of all dependencies that pyproject.toml allows"
	@echo "make test-sets  the tests on each instruction set that this machine has"
	@echo "make coverage   the tests, with the lines that they do not run: at least 95 % must be run"
	@echo "make fuzz    set up and run the fuzzers, each for SECONDS=60"
	@echo "make sanitize   the kernels compiled with sanitizers, their tests and their fuzzer for SECONDS=60"
	@echo "make lint    style and types only"
	@echo "make docs    set up and build the documentation: site/index.html"
	@echo "make paper   the tables and figures of the paper, with all baselines: docs/paper.md; QUICK=1 for minutes instead of hours"
	@echo "make benchmarks  measure the numbers of the documentation, and write them into its pages; ONLY=clicks for some of them"
	@echo "make compare BASE=v0.1.0  CPU seconds of a few fits and kernels, relative to another revision"
	@echo "make dist    the sources as one file, and a wheel that is built from it: dist/"
	@echo "make dev     an environment with the locked versions of requirements/dev.txt; make lock resolves them again"
	@echo "make review  the checks of sp-repo-review"
	@echo "make clean   remove the environment, builds and caches"

demo: $(VENV)/.cli $(VENV)/.plot
	@$(BIN)/rslm demo

# As many processes as cores, so the BLAS of each has one thread. A file is run by one process, which makes its fixtures once.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

# mypy is one process for half a minute: it runs while the tests do, and what it found is shown below them.
test: style $(VENV)/.test
	@echo "mypy and pytest"
	@$(BIN)/mypy > $(VENV)/mypy.log 2>&1 & types=$$!; trap "kill $$types" INT TERM; \
	  $(PYTEST); tests=$$?; \
	  wait $$types; types=$$?; echo "mypy"; cat $(VENV)/mypy.log; \
	  [ $$tests -eq 0 ] && [ $$types -eq 0 ]

# An environment of its own, so that the other one stays. Python 3.11 unless PYTHON says otherwise: the oldest versions have
# wheels for it. They are installed with the newest versions of what they need in turn, some of whose functions they call
# although these are deprecated by now, so that is no error here. TESTS="tests/data tests/cli": some of the tests.
OLDEST_PYTHON := $(if $(filter file,$(origin PYTHON)),python3.11,$(PYTHON))
test-oldest:
	@$(MAKE) --no-print-directory VENV=.venv-oldest OLDEST=yes PYTHON=$(OLDEST_PYTHON) tests-alone

tests-alone: $(VENV)/.test
	@echo "pytest"
	@$(PYTEST) -W default::DeprecationWarning $(TESTS)

test-sets: $(VENV)/.built-all $(VENV)/.test
	@for set in $$($(BIN)/python -c 'from rslm import kernels; print(*kernels.instruction_sets())'); do \
	  echo "pytest with RSLM_INSTRUCTION_SET=$$set"; \
	  RSLM_INSTRUCTION_SET=$$set $(PYTEST) || exit 1; \
	done

# Slower than `make test`. The pages are in out/coverage.
coverage: $(VENV)/.test
	@$(PIP) install "coverage>=7.10" "pytest-cov>=7"
	@$(PYTEST) --cov --cov-report=term --cov-report=html:out/coverage

# Random inputs from seeds; a failure is printed as the command that repeats it.
SECONDS := 60
fuzz: $(VENV)/.test
	@$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS)

# Python itself is not compiled with sanitizers, so their library has to be there before it. What Python never frees is no leak
# of ours. One folder for each, beside a package that is otherwise the one in src.
SANITIZED := build/sanitized
sanitized_run = cd $(SANITIZED)/$(1) && PYTHONPATH=$(CURDIR)/$(SANITIZED)/$(1) \
  LD_PRELOAD="$$($(SANITIZER_CXX) -print-file-name=$(2)) $$($(SANITIZER_CXX) -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 TSAN_OPTIONS=halt_on_error=1 $(CURDIR)/$(BIN)/python
SANITIZER_CXX := $(if $(filter default undefined,$(origin CXX)),g++,$(CXX))
sanitize: $(VENV)/.test
	@$(PIP) install nanobind cmake ninja
	@for kind in address,undefined thread; do \
	  echo "compiling with -fsanitize=$$kind" && \
	  $(BIN)/cmake -S . -B $(SANITIZED)/$$kind/build -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DRSLM_SANITIZE=$$kind \
	    -DCMAKE_CXX_COMPILER=$(SANITIZER_CXX) -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	    -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) > /dev/null && \
	  $(BIN)/cmake --build $(SANITIZED)/$$kind/build > $(SANITIZED)/$$kind/log || exit 1; \
	  rm -rf $(SANITIZED)/$$kind/rslm && cp -r src/rslm $(SANITIZED)/$$kind/ && \
	  cp $(SANITIZED)/$$kind/build/_native* $(SANITIZED)/$$kind/rslm/kernels/ || exit 1; \
	done
	@echo "kernels with the address and undefined-behaviour sanitizers"
	@$(call sanitized_run,address$(comma)undefined,libasan.so) -m pytest -n0 -p no:cacheprovider $(CURDIR)/tests/kernels
	@$(call sanitized_run,address$(comma)undefined,libasan.so) $(CURDIR)/tests/fuzz/run.py kernels --seconds $(SECONDS) --longest 600
	@echo "kernels with the thread sanitizer"
	@$(call sanitized_run,thread,libtsan.so) -m pytest -n0 -p no:cacheprovider $(CURDIR)/tests/kernels -k thread
	@$(call sanitized_run,thread,libtsan.so) $(CURDIR)/tests/fuzz/run.py kernels --seconds $(SECONDS) --longest 600
comma := ,

lint: style
	@echo "mypy"
	@$(BIN)/mypy

style: $(VENV)/.lint
	@echo "ruff check"
	@$(BIN)/ruff check -q --output-format concise .
	@echo "ruff format --check"
	@$(BIN)/ruff format -q --check . || { echo "not formatted: run '$(BIN)/ruff format .'"; exit 1; }

# Neither the build nor the pages need a network. Examples that have not changed since the last build are not run again
# (build/gallery). Not -q, with which warnings, such as of broken links, count for nothing.
# Material would tell of plans for MkDocs 2, which is not used here.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 OPENBLAS_NUM_THREADS=1 $(BIN)/mkdocs build --strict
	@echo "built: site/index.html"

# Hours; it may be stopped at any time, and continues from there. QUICK=1: small data, in minutes, to out/paper/quick.
# ONLY="completion tasks": some of the studies.
paper: $(VENV)/.plot
	@PYTHONPATH=benchmarks $(BIN)/python -m paper $(ONLY) $(if $(QUICK),--quick) $(if $(JOBS),--jobs $(JOBS))

# Two hours; it may be stopped at any time, and continues from there. ONLY="clicks panels": some of the studies.
# AGAIN=1: also those that are stored at this commit. The kernels are compiled for all instruction sets, which one table needs.
benchmarks: $(VENV)/.built-all $(VENV)/.bench
	@PYTHONPATH=benchmarks $(BIN)/python -m measured $(ONLY) $(if $(AGAIN),--again)

# About two minutes, and as much to compile BASE if its C++ differs. LIMIT: the largest ratio that is not an error.
compare: $(VENV)/.cli
	@[ -n "$(BASE)" ] || { echo "name a revision: make compare BASE=HEAD~1"; exit 2; }
	@$(BIN)/python benchmarks/compare.py $(BASE) $(if $(LIMIT),--limit $(LIMIT)) $(if $(ROUNDS),--rounds $(ROUNDS))

dist: $(VENV)/.made
	@$(PIP) install build
	@rm -rf dist
	@echo "building dist/"
	@$(BIN)/python -m build > $(VENV)/dist.log 2>&1 || { tail -20 $(VENV)/dist.log; exit 1; }
	@ls dist

# The versions of requirements/dev.txt, for the tests, the documentation and the habits of the project.
dev: $(VENV)/.built
	@echo "installing requirements/dev.txt"
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@touch $(filter-out %/.bench,$(EXTRAS))

lock: $(VENV)/.made
	@$(PIP) install uv
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --no-emit-index-url --no-annotate --generate-hashes \
	  --extra test --extra lint --extra docs --group habits --custom-compile-command "make lock" -o requirements/dev.txt pyproject.toml

review: $(VENV)/.made
	@$(PIP) install "sp-repo-review[cli]"
	@$(BIN)/sp-repo-review .

clean:
	@rm -rf $(VENV) .venv-oldest build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
	@find src tests -name __pycache__ -prune -exec rm -rf {} +

# ---- the environment: made once, the package compiled again only when its sources changed ---------------------------

COMPILERS := $(if $(filter default undefined,$(origin CXX)),c++ g++ clang++,$(CXX))
python_can = $(shell $(PYTHON) -c '$(1)' >/dev/null 2>&1 && echo yes)
need_compiler = $(if $(shell for c in $(COMPILERS); do command -v $$c || true; done),,$(error No C++ compiler found: \
  Debian/Ubuntu 'apt install g++', Fedora 'dnf install gcc-c++', macOS 'brew install gcc' and 'export CXX=' its g++))
need_python = $(if $(call python_can,import sys; assert sys.hexversion >= 0x030B0000),,$(error Python 3.11 or later is needed \
  and '$(PYTHON)' is not: name one with 'make PYTHON=...'))
need_venv = $(if $(call python_can,import ensurepip; import venv),,$(error '$(PYTHON) -m venv' does not work here: \
  Debian/Ubuntu 'apt install python3-venv'))

$(VENV)/.made:
	$(need_compiler)$(need_python)$(need_venv)
	@echo "making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# One instruction set, the best one of this machine; all of them to test each, or if the environment names one.
compile = $(need_compiler)echo "compiling rslm" && rm -rf $(VENV)/wheel && \
  $(PIP) wheel --no-deps -w $(VENV)/wheel -C cmake.define.RSLM_INSTRUCTION_SETS=$(1) . && \
  $(PIP) install --force-reinstall --no-deps $(VENV)/wheel/rslm-*.whl

$(VENV)/.built: $(VENV)/.made $(SOURCES)
	@$(call compile,host)
	@touch $@

$(VENV)/.built-all: $(VENV)/.made $(SOURCES)
	@$(call compile,all)
	@touch $(VENV)/.built $@

# Byte code is written at the first import, as most modules are never imported; so it must not be forbidden.
export PYTHONDONTWRITEBYTECODE :=
# The documentation is among them, because its build runs the examples.
EXTRAS := $(addprefix $(VENV)/.,cli plot test lint docs bench)
$(EXTRAS): $(VENV)/$(if $(RSLM_INSTRUCTION_SET),.built-all,.built) $(if $(OLDEST),$(VENV)/oldest.txt)
$(EXTRAS):
	@echo "installing what rslm[$(@F:.%=%)] needs"
	@wheel=$$(echo $(VENV)/wheel/rslm-*.whl) && \
	  $(PIP) install --no-compile $(if $(OLDEST),-c $(VENV)/oldest.txt) "./$$wheel[$(@F:.%=%)]"
	@touch $@

$(VENV)/oldest.txt: $(VENV)/.made pyproject.toml tests/oldest_versions.py
	@$(BIN)/python tests/oldest_versions.py test > $@
