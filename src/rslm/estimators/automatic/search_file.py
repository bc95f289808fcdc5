"""The part of a checkpoint that a search for settings writes, before the fit itself begins."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.checkpoint.file import CHECKPOINT, PART, SEARCH, check_settings, damaged, try_out
from rslm.checkpoint.fingerprint import Settings
from rslm.data import parts
from rslm.storage.atomic import target_of
from rslm.storage.container import Arrays, Facts, read_container, write_container


class SearchFile(ABC):
    """The file of a fit during its search.

    Parameters
    ----------
    path : path
        It is an error if there is a file that is not a checkpoint of the same fit, or if none can be written.
    settings : Settings
        The settings and fingerprints that must be the same when a search continues.
    seed : int
        Of the search, if it begins now.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings, seed: int) -> None:
        self.path, self._settings = path, settings
        self.seed = seed  #: of the search that the file was written by; it need not be that of this call
        self._next = -np.inf
        if target_of(path).exists():
            self._read()
        try_out(path)

    @abstractmethod
    def _unpack(self, facts: Any, arrays: Arrays) -> None:
        """Set what the file holds; it is damaged if that raises an error."""

    def _write(self, facts: Facts, arrays: Arrays) -> None:
        facts = {SEARCH: {"settings": self._settings, "seed": self.seed} | facts}
        write_container(self.path, CHECKPOINT, facts, arrays, repeated=True)

    def _write_at_times(self, state: Callable[[], tuple[Facts, Arrays]], last: bool) -> None:
        """Write a state, if the last write was long enough ago or there will be no other."""
        began = time.perf_counter()
        if began < self._next and not last:
            return
        self._write(*state())
        now = time.perf_counter()
        self._next = now + (now - began) / PART

    def _read(self) -> None:
        header, arrays = read_container(self.path, CHECKPOINT)
        facts: Any = header.get(SEARCH, header)  # a fit without a search has other settings
        check_settings(self.path, facts, self._settings)
        try:
            self.seed = parts.whole(facts, "seed")
            self._unpack(facts, arrays)
        except Exception as error:  # a damaged header may cause any error
            raise damaged(self.path, parts.part_of(error)) from error
