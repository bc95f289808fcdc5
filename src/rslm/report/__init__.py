"""Plots of fitted models, and reports. They need Matplotlib: pip install 'rslm[plot]'."""

from rslm.report.channels import plot_signal
from rslm.report.held_out_plots import plot_held_out
from rslm.report.html import completion_report, series_report
from rslm.report.interval_plots import plot_intervals
from rslm.report.page import write_report
from rslm.report.panel_plots import plot_counterfactual, plot_event_study
from rslm.report.panel_report import panel_report
from rslm.report.plots import plot_convergence, plot_images, plot_residuals, plot_series, plot_spectrum
from rslm.report.rankings import implicit_report
from rslm.report.series_plots import plot_components, plot_w_correlations
from rslm.report.settings_plots import plot_effects, plot_path
from rslm.report.task_plots import plot_coefficients

__all__ = [
    "completion_report",
    "implicit_report",
    "panel_report",
    "plot_coefficients",
    "plot_components",
    "plot_convergence",
    "plot_counterfactual",
    "plot_effects",
    "plot_event_study",
    "plot_held_out",
    "plot_images",
    "plot_intervals",
    "plot_path",
    "plot_residuals",
    "plot_series",
    "plot_signal",
    "plot_spectrum",
    "plot_w_correlations",
    "series_report",
    "write_report",
]
