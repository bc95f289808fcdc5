"""Pictures of fitted models. They need Matplotlib: pip install 'rslm[plot]'."""

from rslm.report.plots import plot_convergence, plot_images, plot_residuals, plot_series, plot_spectrum

__all__ = ["plot_convergence", "plot_images", "plot_residuals", "plot_series", "plot_spectrum"]
