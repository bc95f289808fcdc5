"""What a killed process leaves unfinished is removed by the next one that writes the same file, and nothing else is."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare
from rslm.storage.atomic import atomic_bytes, atomic_text, remove_abandoned, unfinished_prefix

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs processes that can be killed, and locks")

WRITING = """
    import sys, time
    from rslm.storage.atomic import atomic_bytes
    with atomic_bytes(sys.argv[1], repeated=sys.argv[2] == "True") as file:
        file.write(b"half")
        file.flush()
        print("writing", flush=True)
        time.sleep(60)
"""
PREPARING = """
    import sys, time
    from rslm.data.prepared import write
    def slow(*_):
        print("writing", flush=True)
        time.sleep(60)
    write._write = slow
    write.prepare(sys.argv[1], sys.argv[2])
"""


def started(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"writing\n"
    return child


def killed(child):
    child.send_signal(signal.SIGKILL)
    child.communicate()


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("repeated", [False, True])
def test_a_file(tmp_path, repeated):
    path = tmp_path / "model.rslm"
    child = started(WRITING, path, repeated)
    (unfinished,) = names(tmp_path)
    assert unfinished.startswith(".model.rslm.")
    assert unfinished.endswith(".unfinished")
    with atomic_text(path) as file:  # somebody else writes it at the same time: both may
        file.write("whole")
    assert names(tmp_path) == [unfinished, "model.rslm"]
    killed(child)
    remove_abandoned(tmp_path / "other")
    assert names(tmp_path) == [unfinished, "model.rslm"]
    with atomic_bytes(path) as file:
        assert len(names(tmp_path)) == 2
        file.write(b"again")
    assert names(tmp_path) == ["model.rslm"]
    assert path.read_bytes() == b"again"


def test_a_prepared_folder(tmp_path):
    (tmp_path / "t.csv").write_text("user,item,rating\na,x,1\nb,y,2\n")
    child = started(PREPARING, tmp_path / "t.csv", tmp_path / "out")
    prepare(tmp_path / "t.csv", tmp_path / "out")
    assert len(names(tmp_path)) == 3  # the one that is held is left alone
    killed(child)
    prepare(tmp_path / "t.csv", tmp_path / "out", force=True)
    assert names(tmp_path) == ["out", "t.csv"]
    np.testing.assert_array_equal(open_prepared(tmp_path / "out").values, [1, 2])


def test_names_that_are_long(tmp_path):
    path = tmp_path / ("a" * 250)
    with atomic_text(path) as file:
        file.write("whole")
    assert names(tmp_path) == [path.name]


def test_a_folder_of_such_a_name_is_left_alone(tmp_path):
    path = tmp_path / "model.rslm"
    (tmp_path / f"{unfinished_prefix(path)}1.unfinished").mkdir()
    with atomic_text(path) as file:
        file.write("whole")
    assert len(names(tmp_path)) == 2
