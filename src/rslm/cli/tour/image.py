"""A photograph with lost and wrong pixels, repaired with a robust loss and with the square loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_sample_image

from rslm import MatrixCompletion, ObservedMatrix
from rslm.cli.output import remarks_on
from rslm.cli.progress import FitProgress
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import percent, rmse
from rslm.estimators.completion.learned import effects_entries, learned_rows
from rslm.report.page import Part, png
from rslm.report.plots import figure, plot_images

LOST, WRONG = 0.4, 0.1  # fractions: of all pixels, and of those that are left
WHITE = 10.0  # black is 0; Huber's loss is quadratic up to 1, a tenth of the range
LOSSES = ("square", "huber")
RANK, C_PER_SIZE = 20, 0.42  # of Huber's loss; C is divided by √(rows · columns). To find them would take long


def repair(sizes: Sizes, seed: int, console: Console) -> Part:
    """Repair an image with both losses. Settings of the square loss are found, those of Huber's loss are given."""
    clean = photograph(sizes.shrink)
    given, lost, wrong = damaged(clean, np.random.default_rng(seed))
    damage = f"{percent(LOST)} lost, {percent(WRONG)} of the rest wrong"
    text = (
        f"{clean.shape[0]} × {clean.shape[1]} pixels of a photograph: {damage}, black or white. The square loss "
        "follows the wrong ones, Huber's loss hardly does. Rank and C of the square loss are found by held-out pixels; "
        "those of Huber's loss are given, to save time."
    )
    console.print(text)
    models = {loss: fitted(given, loss, clean, lost, seed, console) for loss in LOSSES}
    images = {f"{loss.capitalize()} loss": learned_rows(m) for loss, m in models.items()}
    robust = models["huber"]
    simple = {"The mean of the given pixels": np.full(clean.shape, np.nanmean(given))}
    simple["Effects alone, Huber's loss"] = effects_image(robust, given)
    best = {f"Nearest of rank {robust.rank_} to the original": truncated(clean, robust.rank_)}
    rows = [compared(name, image, clean) for name, image in (simple | images | best).items()]
    drawn, axes = figure(6.4, 4.7, 2, 2)
    titles = ["Original", f"Given: {damage}", *(f"{name}: {psnr}" for name, psnr, _ in rows[2:4])]
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
        f"blurred and streaky with the square loss, {rows[2][1]}; clearer with Huber's loss, {rows[3][1]}.",
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


def effects_image(model: MatrixCompletion, given: Any) -> Any:
    """All pixels, from the mean and effects of rows and columns alone."""
    train, all_pixels = ObservedMatrix.from_any(given), ObservedMatrix.from_any(np.zeros(given.shape))
    return effects_entries(model, train, all_pixels).reshape(given.shape)


def fitted(given: Any, loss: str, clean: Any, lost: Any, seed: int, console: Console) -> MatrixCompletion:
    # A smaller tolerance makes no visible difference.
    given_settings = {"rank": min(RANK, *given.shape), "C": C_PER_SIZE * np.sqrt(given.size)} if loss == "huber" else {}
    model = MatrixCompletion(**given_settings, loss=loss, bounds=(0, WHITE), tol=1e-3, random_state=seed)
    where = np.nonzero(lost)

    def error(now: Any) -> float:
        return rmse(now.predict(*where), clean[where]) / WHITE

    with remarks_on(console):
        model.set_callbacks(FitProgress(console, error)).fit(given)
    how = f"found among {len(model.path_['C'])} settings" if model.path_ is not None else "given"
    console.print(
        f"{loss.capitalize()} loss: rank {model.rank_}, C = {model.C_:.3g}, {how}; RMSE of the lost pixels "
        f"{error(model):.4f} (white is 1)"
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


def suspected(model: MatrixCompletion, wrong: Any) -> tuple[int, float]:
    """The number of wrong pixels, and the fraction of wrong ones among that many with the largest scores."""
    scores = model.outlier_scores_
    of_given = wrong[scores.rows_of_entries(), scores.index]
    count = int(of_given.sum())
    return count, float(of_given[np.argsort(-scores.values)[:count]].mean())
