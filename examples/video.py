"""Separate the background of a video

You have a video of a fixed camera. You get the background without what moves, and what moves in every frame.
"""

# %%
# The video is generated: the still picture is a photograph that comes with scikit-learn, daylight changes slowly, and
# three bright or dark blocks move across it. Each of 60 frames is a row of the matrix, each pixel a column.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from rslm import MatrixCompletion

still = load_sample_image("china.jpg").mean(axis=2)[60:380:6, 100:580:6] / 255
height, width = still.shape
frames, rng = 60, np.random.default_rng(0)
daylight = 0.75 + 0.25 * np.cos(2 * np.pi * np.arange(frames) / frames)
background = daylight[:, None, None] * still
moves = np.zeros(background.shape, dtype=bool)
video = background + 0.01 * rng.standard_normal(background.shape)
for top, speed, size, grey in ((38, 1.1, 10, 0.05), (25, -0.7, 8, 0.95), (12, 0.5, 6, 0.0)):
    for k in range(frames):
        left = int(speed * k) % width
        block = (k, slice(top, top + size), slice(left, left + 2 * size))
        video[block] = grey
        moves[block] = True

# %%
# The background has rank 1: one picture, times the light. What moves is a gross error for it, and the absolute loss
# resists gross errors. Baselines are the mean of all frames, and the best matrix of rank 1 with the square loss, the
# first principal component.

matrix = video.reshape(frames, -1)
model = MatrixCompletion(rank=1, loss="absolute", effects=None, random_state=0).fit(matrix)
found = model.predict(matrix).reshape(video.shape)
mean = np.broadcast_to(video.mean(axis=0), video.shape)
left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
component = (sizes[0] * np.outer(left[:, 0], right[0])).reshape(video.shape)
for name, guess in {"mean of the frames": mean, "principal component": component, "absolute loss": found}.items():
    print(f"{name:19} RMSE {np.sqrt(np.mean((guess - background) ** 2)):.4f} of the background")

# %%
# What differs from the background by more than 0.1 moves. Hardly any pixel is judged wrongly.

foreground = np.abs(video - found) > 0.1
contrast = np.abs(video - background) > 0.1  # other pixels of a block cannot be seen
print(f"found {(foreground & moves)[contrast].sum() / (moves & contrast).sum():.1%} of the visible moving pixels")
print(f"{(foreground & ~moves).sum() / (~moves).sum():.2%} of the other pixels are called moving")

# %%
# Frame 20. The principal component has shadows of the blocks; the background with the absolute loss has none.

figure, axes = plt.subplots(2, 2, figsize=(6, 4.8))
shown = {"frame 20": video, "principal component": component, "absolute loss": found, "what moves": foreground}
for ax, (name, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture[20], cmap="gray", vmin=0, vmax=1)
    ax.set_title(name)
    ax.axis("off")
plt.show()
