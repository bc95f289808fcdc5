"""Separate the lines of an NMR-like signal

You have a complex signal that decays, such as a free induction decay. You get its lines: frequency, damping, amplitude
and phase of each, also of two that the Fourier transform shows as one.
"""

# %%
# The signal is generated: four damped exponentials in noise, 256 samples at 1 kHz. Two of the lines are 2 Hz apart,
# less than the 3.9 Hz between two points of the Fourier transform.

import matplotlib.pyplot as plt
import numpy as np

from rslm import HankelModel

rate, n = 1000.0, 256
frequencies = np.array([-180.0, 60.0, 62.0, 210.0])  # Hz
dampings = np.array([12.0, 6.0, 6.0, 25.0])  # 1/s
amplitudes = np.array([0.8, 1.0, 0.7, 1.2]) * np.exp(1j * np.array([0.0, 0.3, 0.3, 0.6]))
seconds = np.arange(n) / rate
clean = np.exp(np.outer(seconds, 2j * np.pi * frequencies - dampings)) @ amplitudes
rng = np.random.default_rng(0)
signal = clean + 0.05 * (rng.standard_normal(n) + 1j * rng.standard_normal(n))

# %%
# The number of lines is found, too.

model = HankelModel().fit(signal)
order = np.argsort(model.frequencies_)
found = model.frequencies_[order] * rate
print("line   true Hz   found Hz   true damping   found damping")
for k, at in enumerate(order):
    print(f"{k + 1:4} {frequencies[k]:9.2f} {found[k]:10.2f} {dampings[k]:14.1f} {model.dampings_[at] * rate:15.1f}")
error = np.linalg.norm(model.signal_ - clean) / np.linalg.norm(signal - clean)
print(f"error of the cleaned signal relative to that of the measured one: {error:.2f}")

# %%
# Above: all lines. Below: the two close ones, for which the Fourier transform has one peak, even if the signal is
# extended with zeros. `HankelModel` finds both.

padded = np.fft.fftshift(np.fft.fftfreq(8 * n, 1 / rate))
spectrum = np.abs(np.fft.fftshift(np.fft.fft(signal, 8 * n)))
heights = np.abs(model.amplitudes_ / model.dampings_)[order]  # of a line without noise, at its frequency
figure, (whole, near) = plt.subplots(2, 1, figsize=(6, 6.4))
for axes in (whole, near):
    axes.plot(padded, spectrum, color="#7F7F7F", label="Fourier transform")
    for true in frequencies:
        axes.axvline(true, color="#009E73", lw=1, ls=":", label="true lines" if true == frequencies[0] else None)
    axes.plot(found, heights, "o", color="#0072B2", label="HankelModel")
    axes.set(xlabel="frequency in Hz", ylabel="height")
whole.set_xlim(-260, 280)
near.set_xlim(45, 78)
figure.legend(*whole.get_legend_handles_labels(), loc="outside upper center", ncols=3, columnspacing=1)
plt.show()
