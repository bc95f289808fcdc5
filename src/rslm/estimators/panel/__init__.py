"""Effects of a treatment in panels: outcomes of units over periods."""

from rslm.estimators.panel.panel_completion import PanelCompletion

__all__ = ["PanelCompletion"]
