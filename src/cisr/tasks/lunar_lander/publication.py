"""What the paper published about Lunar Lander: its table of noiseless students with two layers, and two teachers."""

from cisr.core.publication import Published, PublishedRow

LL_A = {
    "kind": "switching",
    "interventions": ["Narrow", "Wide"],
    "thresholds": [{"min_return": 22.84, "max_violation": 3.434}],
}
LL_B = {
    "kind": "switching",
    "interventions": ["Narrow", "Wide"],
    "thresholds": [{"min_return": 50.70, "max_violation": 1.032}],
}

LUNAR_LANDER = Published(
    title="Lunar Lander, noiseless students with two layers (Table 7a of the paper)",
    rows={
        "Optimized": PublishedRow(
            success=(0.892, 0.004),
            training_failures=(1.7, 0.13),
            mean_return=(236.1, 0.9),
            outcomes={"crash": (0.095, 0.006), "out of map": (0.004, 0.001)},
        ),
        "Wide": PublishedRow(
            success=(0.792, 0.022),
            training_failures=(3.5, 0.15),
            mean_return=(199.5, 8.3),
            outcomes={"crash": (0.187, 0.015), "out of map": (0.004, 0.001)},
        ),
        "Narrow": PublishedRow(
            success=(0.727, 0.031),
            training_failures=(0.9, 0.02),
            mean_return=(187.2, 9.0),
            outcomes={"crash": (0.234, 0.021), "out of map": (0.004, 0.002)},
        ),
        "No-interv.": PublishedRow(
            success=(0.885, 0.016),
            training_failures=(1251.0, 33.72),
            mean_return=(225.1, 7.4),
            outcomes={"crash": (0.073, 0.001), "out of map": (0.019, 0.014)},
        ),
    },
    teachers={"LL-A": LL_A, "LL-B": LL_B},
    baselines=(),
    students=("two-layer", "two-layer-relu", "explorer"),
    deploy_each_unit=False,
)
