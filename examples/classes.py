"""Learn related classifications

You have many classifications with few rows each, such as one for every person. You get a classifier for each that
borrows strength from the others.
"""

# %%
# Sixty persons sort messages into wanted and unwanted, 20 messages each. Features of messages and the rules of persons
# are generated: a rule is a combination of two, plus a common one. The test has 100 new messages of every person.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from rslm import MultiTaskClassifier

rng = np.random.default_rng(0)
rules = rng.standard_normal(12) + 1.5 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 12))


def messages(n, seed):
    """n messages of every person: features, whether they are wanted, and the persons."""
    rng = np.random.default_rng(seed)
    persons = np.repeat(np.arange(60), n)
    X = rng.standard_normal((len(persons), 12))
    return X, (X * rules[persons]).sum(axis=1) + rng.logistic(size=len(persons)) > 0, persons


X, wanted, persons = messages(20, seed=1)
X_test, wanted_test, persons_test = messages(100, seed=2)

# %%
# The baselines are a logistic regression for every person, and one for all.

model = MultiTaskClassifier(random_state=0).fit(X, wanted, tasks=persons)
guesses = {"one for all": LogisticRegression().fit(X, wanted).predict(X_test)}
alone = np.empty(len(wanted_test), dtype=bool)
for person in range(60):
    own, own_test = persons == person, persons_test == person
    alone[own_test] = LogisticRegression().fit(X[own], wanted[own]).predict(X_test[own_test])
guesses["one for every person"] = alone
guesses["MultiTaskClassifier"] = model.predict(X_test, tasks=persons_test)
accuracy = {name: (guess == wanted_test).reshape(60, 100).mean(axis=1) for name, guess in guesses.items()}
accuracy["true rules"] = ((X_test * rules[persons_test]).sum(axis=1) > 0) == wanted_test
accuracy["true rules"] = accuracy["true rules"].reshape(60, 100).mean(axis=1)
for name, found in accuracy.items():
    print(f"{name:21} right in {found.mean():.1%} of the test messages")

# %%
# The accuracy of all 60 persons: the box has the middle half of them. Answers are random, so even the true rules are
# not always right.

figure, axes = plt.subplots(figsize=(7, 3.6))
drawn = axes.boxplot(list(accuracy.values()), widths=0.6, patch_artist=True)
for box, colour in zip(drawn["boxes"], ["#BFBFBF", "#BFBFBF", "#0072B2", "#E5E5E5"], strict=True):
    box.set_facecolor(colour)
axes.set_xticks(range(1, 5), labels=list(accuracy))
axes.set_ylabel("share of test messages that are right")
plt.show()
