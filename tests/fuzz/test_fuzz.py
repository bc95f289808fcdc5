"""A short part of every fuzzer; `make fuzz SECONDS=600` runs them for longer."""

import pytest
from run import FUZZERS, LONGEST, Report, run

CASES = {"estimators": 100, "files": 60, "kernels": 60}


@pytest.mark.parametrize("fuzzer", FUZZERS)
def test_a_short_part(fuzzer):
    # A case that hangs is a failure; one that is slow on a busy machine is not.
    report = run(fuzzer, first=0, cases=CASES[fuzzer], seconds=None, processes=1, longest=120.0)
    assert report.cases == CASES[fuzzer]
    assert not report.failures, report.failures


def test_a_case_that_fails_is_told_as_a_command(capsys):
    report = Report("files")
    report.note(3, 0.1, None)
    report.note(7, LONGEST, "ValueError: no sentence")
    assert list(report.failures) == [7]
    assert "python tests/fuzz/run.py files --seed 7" in capsys.readouterr().out
    assert str(report) == "files: 2 cases, 1 failed, slowest 5.0 s (seed 7)"
