"""Predict answers of yes or no

You have some answers that are right or wrong, liked or not. You get the probability of every other answer.
"""

# %%
# The answers of 300 students to 120 questions are generated: their log-odds are a matrix of rank 2, and 30 % of the
# answers are known. Students have strengths in two subjects, so a student's overall share of right answers says little.

import matplotlib.pyplot as plt
import numpy as np

from rslm import MatrixCompletion, ObservedMatrix
from rslm.evaluate import holdout

rng = np.random.default_rng(0)
odds = 2 * rng.standard_normal((300, 2)) @ rng.standard_normal((2, 120))
right = (odds + rng.logistic(size=odds.shape) > 0).astype(float)
right[rng.random(odds.shape) < 0.7] = np.nan
train, test = holdout(ObservedMatrix.from_any(right), 0.2, random_state=0)

# %%
# With `loss="logistic"` the learned matrix has log-odds, and `predict_proba` gives probabilities. Answers are random,
# so even the true log-odds are not always right.

model = MatrixCompletion(loss="logistic", random_state=0).fit(train)
students, questions = test.rows_of_entries(), test.index
probability = model.predict_proba(students, questions)
share = train.values.mean()
guess_by_question = np.array([train.values[train.index == q].mean() for q in range(120)])[questions] > 0.5
for name, guess in (
    ("the more frequent answer", np.full(len(test.values), share > 0.5)),
    ("the same for each question", guess_by_question),
    ("MatrixCompletion", probability > 0.5),
    ("the true log-odds", odds[students, questions] > 0),
):
    print(f"{name:27} right in {np.mean(guess == test.values):.1%} of the held-out answers")

# %%
# The probabilities are calibrated: of the answers with a probability of 80 %, about 80 % are right.

edges = np.linspace(0, 1, 11)
group = np.clip(np.digitize(probability, edges) - 1, 0, 9)
filled = [k for k in range(10) if np.count_nonzero(group == k) >= 20]
mean = [probability[group == k].mean() for k in filled]
often = [test.values[group == k].mean() for k in filled]
spread = [1.645 * np.sqrt(p * (1 - p) / np.count_nonzero(group == k)) for p, k in zip(mean, filled, strict=True)]
figure, axes = plt.subplots(figsize=(6, 4.2))
axes.axline((0, 0), slope=1, color="#7F7F7F", lw=1, label="perfect calibration")
axes.errorbar(mean, often, spread, fmt="o", color="#0072B2", label="held-out answers,\n90 % of the chance variation")
axes.set(xlabel="predicted probability", ylabel="share of right answers", xlim=(0, 1), ylim=(0, 1))
axes.legend(loc="upper left")
plt.show()
