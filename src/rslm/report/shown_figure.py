"""A Matplotlib figure that a notebook shows once."""

from __future__ import annotations

import io
from typing import Any

from matplotlib import get_backend, pyplot
from matplotlib.figure import Figure


class ShownFigure(Figure):  # type: ignore[misc, unused-ignore]
    """A figure of pyplot, which `plt.show()` shows in a script, and a notebook at the end of the cell.

    There a figure that is also the value of the cell would be shown twice. So it is closed once it was shown as that.
    """

    def _ipython_display_(self) -> None:
        if "inline" not in get_backend():
            raise NotImplementedError  # IPython shows it as any other figure
        from IPython.display import display

        drawn = io.BytesIO()
        self.savefig(drawn, format="png", dpi=self.dpi, bbox_inches="tight")
        shown: dict[str, Any] = {"image/png": drawn.getvalue(), "text/plain": repr(self)}
        display(shown, raw=True)
        pyplot.close(self)
