"""The log in a notebook: one line that is updated, as a line for every iteration would fill the page."""

from __future__ import annotations

import html
import logging
import sys
import time
from contextlib import suppress
from typing import Any

EVERY = 0.25  # seconds between updates; a browser needs no more, and each is a message to it
STYLE = "margin:0;padding:0;background:none;color:inherit;white-space:pre-wrap;font:12px monospace"


def kernel() -> Any:
    """The kernel of the notebook that this process runs; None elsewhere, in a terminal for instance."""
    ipython = sys.modules.get("IPython")  # it is loaded if this is a notebook
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None)


class LiveLine(logging.Handler):
    """Shows the last message and the time since the first one; the last of all stays."""

    def __init__(self) -> None:
        super().__init__()
        self._began, self._shown_at, self._pending = time.perf_counter(), -EVERY, ""
        self._display: Any = None  # the place in the page, once there is something to show

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._pending = self.format(record)
            if time.perf_counter() - self._shown_at >= EVERY:
                self._show()
        except Exception:  # as all handlers do: a fit must not end because it cannot be shown
            self.handleError(record)

    def close(self) -> None:
        with suppress(Exception):  # likewise
            if self._pending:
                self._show()
        super().close()

    def _show(self) -> None:
        from IPython.display import display

        seconds = time.perf_counter() - self._began
        line, self._pending, self._shown_at = f"{seconds:.1f} s  {self._pending}", "", time.perf_counter()
        shown = {"text/plain": line, "text/html": f"<pre style='{STYLE}'>{html.escape(line)}</pre>"}
        if self._display is None:
            self._display = display(shown, raw=True, display_id=True)
        else:
            self._display.update(shown, raw=True)
