"""Fill the outages of sensors

You have readings of many sensors over time, and each sensor was off for some days. You get the missing stretches, with
intervals.
"""

# %%
# The panel is generated: 60 sensors of temperature, one reading an hour for 20 days. All follow the same weather,
# each with its own level, its own daily swing and its own response to a cold front. Every sensor has one outage of
# one to five days, the test.

import matplotlib.pyplot as plt
import numpy as np

from rslm import MatrixCompletion

rng = np.random.default_rng(0)
hours = np.arange(20 * 24)
cloud = np.interp(hours, hours[::24], rng.uniform(0.3, 1.0, 20))
weather = np.stack([cloud * np.sin(2 * np.pi * (hours - 9) / 24), np.cumsum(rng.standard_normal(len(hours))) / 5])
truth = 15 + 2 * rng.standard_normal((60, 1)) + rng.gamma(4, [1.2, 0.3], (60, 2)) @ weather
readings = truth + 0.3 * rng.standard_normal(truth.shape)
off = np.zeros(readings.shape, dtype=bool)
for sensor, (start, days) in enumerate(zip(rng.integers(24, 14 * 24, 60), rng.integers(1, 6, 60), strict=True)):
    off[sensor, start : start + 24 * days] = True
given = np.where(off, np.nan, readings)

# %%
# Rows are sensors, columns are hours, and NaN is missing. `predict_interval` says how far a reading may be.

model = MatrixCompletion(random_state=0).fit(given)
predicted = model.predict(given)[off]
lower, upper = model.predict_interval(*np.nonzero(off))
line = np.array([np.interp(hours, hours[~gap], row[~gap]) for row, gap in zip(readings, off, strict=True)])[off]
mean = np.broadcast_to(np.nanmean(given, axis=1, keepdims=True), off.shape)[off]
errors = {
    name: np.sqrt(np.mean((guess - readings[off]) ** 2))
    for name, guess in (("mean of the sensor", mean), ("straight line", line), ("MatrixCompletion", predicted))
}
for name, error in errors.items():
    print(f"{name:18} RMSE {error:.2f} °C in the outages; the noise is 0.30 °C")
covered = np.mean((lower <= readings[off]) & (readings[off] <= upper))
print(f"{covered:.0%} of the missing readings are inside their interval of 90 %")

# %%
# The outage of one sensor: the other sensors know what the weather was.

sensor = int(off.sum(axis=1).argmax())
gap = np.flatnonzero(off[sensor])
near = slice(gap[0] - 48, gap[-1] + 49)
low, high = model.predict_interval(np.full(len(gap), sensor), gap)
figure, axes = plt.subplots(figsize=(6, 4))
axes.plot(hours[near] / 24, given[sensor, near], color="#7F7F7F", lw=1, label="given")
axes.plot(gap / 24, readings[sensor, gap], ".", ms=3, color="#009E73", label="missing readings")
axes.plot(gap / 24, model.predict(np.full(len(gap), sensor), gap), color="#0072B2", label="MatrixCompletion")
axes.fill_between(gap / 24, low, high, color="#0072B2", alpha=0.2, lw=0, label="interval of 90 %")
axes.plot(gap[[0, -1]] / 24, readings[sensor, [gap[0] - 1, gap[-1] + 1]], ":", color="#D55E00", label="straight line")
axes.set(xlabel="day", ylabel="temperature in °C")
figure.legend(loc="outside upper center", ncols=2)
plt.show()
