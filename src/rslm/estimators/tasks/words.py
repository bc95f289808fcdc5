"""Tasks without a part of low rank, and so without a certificate, in words."""

#: What the tasks have, and what that means, by `task_part_`.
WITHOUT_LOW_RANK = {
    "none": (
        "one model for all tasks",
        "One model for all tasks, with an intercept for each, predicts held-out rows as well as a model for each.",
    ),
    "ridge": (
        "a ridge for every task",
        "The tasks have no directions in common that would help: each has a ridge around the common model.",
    ),
}
