"""Identify a system from its input and output

You have a record of an input and an output, such as the power of a heater and a temperature. You get a linear system
that predicts the output for any other input.
"""

# %%
# The record is generated: a system of order 3, a random on-off input, and noise with memory. The model sees the first
# 300 of 600 samples; the rest is held out.

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter
from sklearn.linear_model import RidgeCV

from rslm import HankelModel

rng = np.random.default_rng(0)
power = np.repeat(rng.integers(0, 2, 60), 10).astype(float)  # kW, switched every ten minutes at most
a = np.poly([0.95, 0.8 * np.exp(0.3j), 0.8 * np.exp(-0.3j)]).real
warming = lfilter([0.0, 0.1, 0.06], a, power)
temperature = 18 + warming + lfilter([1.0], [1.0, -0.9], 0.15 * rng.standard_normal(600))

# %%
# `HankelModel` finds the order, the matrices of the system and the offset. `simulate` uses the input only: it never
# sees an output of the second half. The baseline is a ridge regression on the last 40 inputs.

model = HankelModel().fit(temperature[:300], u=power[:300])
print(f"order {model.rank_}, poles of size {np.abs(model.poles_).round(2)}")
print(f"resting temperature {model.offset_.item():.1f} °C")
simulated = model.simulate(power, x0=model.initial_state_)
lags = np.column_stack([np.concatenate([np.zeros(k), power[: len(power) - k]]) for k in range(40)])
ridge = RidgeCV(np.geomspace(1e-3, 1e3, 13)).fit(lags[:300], temperature[:300]).predict(lags)


def fit(guess):
    """1 is perfect, 0 is as good as the mean: the usual measure of fit, relative to the output without noise."""
    wanted = (18 + warming)[300:]
    return 1 - np.linalg.norm(wanted - guess[300:]) / np.linalg.norm(wanted - wanted.mean())


print(f"fit in the second half: HankelModel {fit(simulated):.1%}, ridge on 40 inputs {fit(ridge):.1%}")

# %%
# The held-out half of the record: the simulation follows the temperature from the input alone.

minutes = np.arange(600)
figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5.2), sharex=True, height_ratios=[4, 1])
above.plot(minutes, temperature, ".", ms=3, color="#7F7F7F", label="measured")
above.plot(minutes, ridge, ":", color="#E69F00", label="ridge on 40 inputs")
above.plot(minutes, simulated, color="#0072B2", label="HankelModel")
above.set(ylabel="temperature in °C", xlim=(300, 600))
above.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1), columnspacing=1, handlelength=1.2)
below.step(minutes, power, where="post", color="#7F7F7F")
below.set(xlabel="minute", ylabel="kW")
plt.show()
