"""What the paper published about Frozen Lake: its Table 6 and two of its teachers."""

from cisr.core.publication import Published, PublishedRow

FL_A = {
    "kind": "switching",
    "interventions": ["SR1", "SR2", "HR"],
    "thresholds": [
        {"min_return": 2.1027, "max_violation": 0.05295},
        {"min_return": -0.0582, "max_violation": 0.1597},
    ],
}
FL_B = {
    "kind": "switching",
    "interventions": ["SR1", "HR", "HR"],
    "thresholds": [
        {"min_return": 2.7771, "max_violation": 0.0987},
        {"min_return": 1.7732, "max_violation": 0.0694},
    ],
}

FROZEN_LAKE = Published(
    title="Frozen Lake (Table 6 of the paper)",
    rows={
        "Optimized": PublishedRow(success=(0.960, 0.004), training_failures=(0, 0), mean_return=(5.368, 0.025)),
        "SR2": PublishedRow(success=(0.827, 0.027), training_failures=(0, 0), mean_return=(4.669, 0.168)),
        "SR1": PublishedRow(success=(0.850, 0.011), training_failures=(0, 0), mean_return=(4.839, 0.065)),
        "HR": PublishedRow(success=(0.000, 0.000), training_failures=(0, 0), mean_return=(-0.222, 0.013)),
        "Bandit": PublishedRow(success=(0.574, 0.049), training_failures=(0, 0), mean_return=(3.077, 0.288)),
        "No-interv.": PublishedRow(
            success=(0.768, 0.028), training_failures=(3075.6, 492.1), mean_return=(4.329, 0.160)
        ),
    },
    teachers={"FL-A": FL_A, "FL-B": FL_B},
    baselines=("Back-6", "Incremental-2"),
)
