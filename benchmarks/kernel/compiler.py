"""C++ files compiled into the temporary folder."""

from __future__ import annotations

import ctypes as ct
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILER = os.environ.get("CXX", "g++")


def compiled(source: str, *flags: str) -> ct.CDLL:
    """The library of a C++ source."""
    folder = Path(tempfile.mkdtemp(prefix="rslm-benchmark-"))
    (folder / "source.cpp").write_text(source)
    command = [COMPILER, "-O3", "-std=c++17", "-ffast-math", "-shared", "-fPIC", *flags]
    try:
        subprocess.run([*command, str(folder / "source.cpp"), "-o", str(folder / "library.so")], check=True)
    except FileNotFoundError:
        sys.exit(f"This benchmark needs a C++ compiler, and there is no {COMPILER}; set CXX to the one that you have.")
    return ct.CDLL(str(folder / "library.so"))
