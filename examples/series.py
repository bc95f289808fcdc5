"""Forecast a seasonal series

You have monthly numbers with a trend and seasons. You get the next two years with an interval, and the parts that the
series is made of.
"""

# %%
# The visitors of a museum are generated: growth, two seasons, a new wing whose novelty wears off, and noise that is not
# white. The last 24 of 168 months are held out.

import matplotlib.pyplot as plt
import numpy as np

from rslm import HankelModel
from rslm.report import plot_components, plot_series

rng, t, steps = np.random.default_rng(0), np.arange(168), 24
clean = 100 + 0.4 * t + 12 * np.cos(2 * np.pi * t / 12 + 1) + 5 * np.cos(2 * np.pi * t / 4) + 30 * 0.9**t
noise = np.zeros(len(t))
for k in range(1, len(t)):
    noise[k] = 0.6 * noise[k - 1] + 1.5 * rng.standard_normal()
visitors = clean + noise
known, later = visitors[:-steps], visitors[-steps:]

# %%
# Nothing is set, not even the length of the season. `components_` are the parts of the signal.

model = HankelModel().fit(known)
print(*model.components_, sep="\n")

# %%
# The seasonal naive forecast repeats the last year. It knows that a season has twelve months, and misses the trend.

forecast = model.forecast(steps)
lower, upper = model.predict_interval(steps)
inside = int(((lower < later) & (later < upper)).sum())
naive = np.tile(known[-12:], 2)
mean_error, naive_error = (np.abs(guess - later).mean() for guess in (forecast, naive))
print(f"mean absolute error of the forecast: {mean_error:.2f}, of the seasonal naive forecast: {naive_error:.2f}")
print(f"{inside} of {steps} held-out months are inside the interval of 90 %")

# %%
# Above: the series, the forecast and its interval, with the months that were held out. Below: the parts of the signal.

figure, (series, parts) = plt.subplots(2, 1, figsize=(6, 7.5))
plot_series(model, known, steps, ax=series)
series.plot(np.arange(len(known), len(visitors)), later, "x", ms=4, color="#009E73", label="held out")
series.set(xlabel="month", ylabel="visitors in thousands", ylim=(None, 215))
series.legend(loc="upper left", ncols=2)
plot_components(model, ax=parts)
parts.set_xlabel("month")
plt.show()
