"""Estimate the effect of a law in a panel

You have outcomes of states over years, and some states pass a law in different years. You get the effect of the law,
with an interval, and what would have happened without it.
"""

# %%
# Sales of cigarettes are generated for 39 states and 31 years. Sales fall everywhere, and fastest where people turn
# away from smoking, which is where the law is passed. So a plain comparison blames the law for a decline that would
# have come anyway. The true effect grows to −12 packs within three years.

import matplotlib.pyplot as plt
import numpy as np

from rslm import PanelCompletion
from rslm.report import plot_counterfactual, plot_event_study

rng = np.random.default_rng(0)
years = np.arange(31)
taste = np.sort(rng.standard_normal(39))[::-1]  # the first states turn away from smoking
decline = -0.06 * np.maximum(years - 8, 0) ** 1.5
sales = 120 + 12 * rng.standard_normal((39, 1)) + np.outer(3 + taste, decline)
sales += 2 * rng.standard_normal(sales.shape)
law = np.zeros(sales.shape, dtype=bool)
for state, first in enumerate(rng.integers(18, 25, 8)):
    law[state, first:] = True
effect = -12 * np.minimum(np.cumsum(law, axis=1) / 3, 1)
sales += effect
true = effect[law].mean()

# %%
# The outcomes without the law are treated as missing entries of the matrix, which are completed. With rank 0 the model
# is difference-in-differences, the baseline.

model = PanelCompletion(n_refits=100, random_state=0).fit(sales, law)
plain = PanelCompletion(rank=0, C=model.C_, inference=None, pre_periods=0).fit(sales, law).att_
low, high = model.att_interval_
print(f"true average effect        {true:6.2f} packs")
print(f"PanelCompletion            {model.att_:6.2f}, interval of 95 % from {low:.2f} to {high:.2f}")
print(f"difference-in-differences  {plain:6.2f}")
print(model.certificate_.verdict)

# %%
# Above: the effect by years since the law; three held-out years before it are near 0, as they should be. Below: average
# sales of the eight states, and what they would have been without the law. At both ends, fewer states are averaged.

figure, (study, states) = plt.subplots(2, 1, figsize=(6, 7))
plot_event_study(model, study)
study.set(xlabel="years since the law", ylabel="effect in packs", ylim=(None, 9))
study.legend(loc="upper right")
plot_counterfactual(model, ax=states)
states.set(xlabel="years since the law", ylabel="packs per head", title="Average of the eight states")
plt.show()
