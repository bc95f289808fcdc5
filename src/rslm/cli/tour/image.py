"""A photograph with lost and wrong pixels, repaired with a robust loss and with the square loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_sample_image

from rslm import MatrixCompletionCV
from rslm.cli.output import remarks_on
from rslm.cli.progress import FitProgress
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import percent, rmse
from rslm.report.page import Part, png
from rslm.report.plots import figure, plot_images

LOST, WRONG = 0.4, 0.1  # fractions: of all pixels, and of those that are left
WHITE = 10.0  # black is 0; Huber's loss is quadratic up to 1, a tenth of the range
RANKS = (10, 20)  # candidates
C_PER_SIZE = {
    "square": (0.03, 0.1, 0.3, 1.0),
    "huber": (0.5, 1.0, 2.0, 4.0),
}  # candidates for C, divided by √(rows · columns)


def repair(sizes: Sizes, seed: int, console: Console) -> Part:
    """Repair an image with both losses; rank and C of each are chosen on a tenth of the given pixels."""
    clean = photograph(sizes.shrink)
    given, lost, wrong = damaged(clean, np.random.default_rng(seed))
    damage = f"{percent(LOST)} lost, {percent(WRONG)} of the rest wrong"
    text = (
        f"{clean.shape[0]} × {clean.shape[1]} pixels of a photograph: {damage}, black or white. The square loss "
        "follows the wrong ones, Huber's loss hardly does. Rank and C of each are chosen on a tenth of the pixels left."
    )
    console.print(text)
    models = {loss: fitted(given, loss, clean, lost, seed, console) for loss in C_PER_SIZE}
    images = {f"{loss.capitalize()} loss": m.row_factors_ @ m.col_factors_.T for loss, m in models.items()}
    robust = models["huber"]
    best = {f"Nearest of rank {robust.best_rank_} to the original": truncated(clean, robust.best_rank_)}
    rows = [compared(name, image, clean) for name, image in (images | best).items()]
    drawn, axes = figure(6.4, 4.7, 2, 2)
    titles = ["Original", f"Given: {damage}", *(f"{name}: {psnr}" for name, psnr, _ in rows[:2])]
    plot_images(clean, given, *images.values(), titles=titles, axes=axes)
    for ax in np.ravel(axes):
        ax.title.set_fontsize("medium")
    count, right = suspected(robust, wrong)
    return Part(
        "image",
        "Image repair",
        text,
        ["", "PSNR", "relative error"],
        rows,
        f"{count:,} of the given pixels are wrong; of the {count:,} that fit worst with Huber's loss, "
        f"{percent(right)} are. " + robust.certificate_.verdict,
        png(drawn),
        "A pagoda in four pictures: the original; as it is given, with lost pixels in orange and black and white dots; "
        f"blurred and streaky with the square loss, {rows[0][1]}; clearer with Huber's loss, {rows[1][1]}.",
    )


def photograph(shrink: int) -> NDArray[np.float64]:
    """A photograph that comes with scikit-learn, in greys, each pixel the mean of a square of original ones."""
    colours = load_sample_image("china.jpg").astype(np.float64)
    grey = colours @ [0.299, 0.587, 0.114] * (WHITE / 255)  # weights of perceived brightness
    rows, cols = (side // shrink for side in grey.shape)
    return np.asarray(
        grey[: rows * shrink, : cols * shrink].reshape(rows, shrink, cols, shrink).mean(axis=(1, 3)), dtype=np.float64
    )


def damaged(clean: NDArray[np.float64], rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A damaged image; which of its pixels are lost, and which are wrong (unless they are lost)."""
    lost, wrong = rng.random(clean.shape) < LOST, rng.random(clean.shape) < WRONG
    given = np.where(wrong, WHITE * rng.integers(0, 2, clean.shape), clean)
    given[lost] = np.nan
    return given, lost, wrong


def fitted(given: Any, loss: str, clean: Any, lost: Any, seed: int, console: Console) -> MatrixCompletionCV:
    size = np.sqrt(given.size)
    model = MatrixCompletionCV(
        RANKS,
        [c * size for c in C_PER_SIZE[loss]],
        loss=loss,
        bounds=(0, WHITE),
        weighting=0.0,
        tol=1e-3,  # a smaller one makes no visible difference
        random_state=seed,
    )
    where = np.nonzero(lost)

    def error(now: Any) -> float:
        return rmse(now.predict(*where), clean[where]) / WHITE

    with remarks_on(console):
        model.set_callbacks(FitProgress(console, error)).fit(given)
    console.print(
        f"{loss.capitalize()} loss: the best of {len(model.cv_results_['C'])} settings is rank {model.best_rank_}, "
        f"C = {model.best_C_:.3g}; RMSE of the lost pixels {error(model):.4f} (white is 1)"
    )
    return model


def compared(name: str, found: Any, clean: Any) -> list[str]:
    """A row of the table. An error half as large is 6 dB more."""
    error = rmse(found, clean)
    return [name, f"{20 * np.log10(WHITE / error):.1f} dB", f"{error / rmse(0.0, clean):.3f}"]


def truncated(clean: Any, rank: int) -> Any:
    """The matrix of this rank nearest to the original: no result of that rank could be better."""
    P, s, Q = np.linalg.svd(clean, full_matrices=False)
    return P[:, :rank] * s[:rank] @ Q[:rank]


def suspected(model: MatrixCompletionCV, wrong: Any) -> tuple[int, float]:
    """The number of wrong pixels, and the fraction of wrong ones among that many with the largest scores."""
    scores = model.outlier_scores_
    of_given = wrong[scores.rows_of_entries(), scores.index]
    count = int(of_given.sum())
    return count, float(of_given[np.argsort(-scores.values)[:count]].mean())
