"""What the paper published about Lunar Lander: its tables of three kinds of students, and two teachers."""

from dataclasses import replace

from cisr.core.publication import MainRow, Published, PublishedRow

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

_TWO_LAYERS = Published(
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
    main={
        "Optimized": MainRow(mean_return=233.8, success=0.884, test_failures=0.105, training_failures=1.6),
        "Narrow": MainRow(mean_return=183.0, success=0.724, test_failures=0.300, training_failures=1.0),
        "Wide": MainRow(mean_return=210.6, success=0.814, test_failures=0.176, training_failures=3.4),
        "No-interv.": MainRow(mean_return=236.3, success=0.901, test_failures=0.079, training_failures=1228.8),
    },
)
_NOISY = replace(
    _TWO_LAYERS,
    title="Lunar Lander, students with two layers and noisy sensors (Table 7b of the paper)",
    rows={
        "Optimized": PublishedRow(
            success=(0.834, 0.023),
            training_failures=(2.6, 0.23),
            mean_return=(211.5, 6.8),
            outcomes={"crash": (0.132, 0.022), "out of map": (0.003, 0.001)},
        ),
        "Wide": PublishedRow(
            success=(0.788, 0.026),
            training_failures=(4.2, 0.12),
            mean_return=(184.7, 21.8),
            outcomes={"crash": (0.138, 0.008), "out of map": (0.007, 0.004)},
        ),
        "Narrow": PublishedRow(
            success=(0.632, 0.013),
            training_failures=(1.8, 0.46),
            mean_return=(139.1, 7.1),
            outcomes={"crash": (0.329, 0.010), "out of map": (0.006, 0.002)},
        ),
        "No-interv.": PublishedRow(
            success=(0.860, 0.004),
            training_failures=(1695.8, 31.04),
            mean_return=(214.7, 3.1),
            outcomes={"crash": (0.108, 0.001), "out of map": (0.008, 0.002)},
        ),
    },
    students=("noisy", "noisy-relu"),
    main={
        "Optimized": MainRow(mean_return=221.1, success=0.867, test_failures=0.105, training_failures=2.95),
        "Narrow": MainRow(mean_return=149.1, success=0.651, test_failures=0.324, training_failures=1.2),
        "Wide": MainRow(mean_return=153.9, success=0.751, test_failures=0.140, training_failures=4.05),
        "No-interv.": MainRow(mean_return=210.3, success=0.855, test_failures=0.118, training_failures=1651.9),
    },
)
_ONE_LAYER = replace(
    _TWO_LAYERS,
    title="Lunar Lander, noiseless students with one layer (Table 7c of the paper)",
    rows={
        "Optimized": PublishedRow(
            success=(0.921, 0.016),
            training_failures=(1.9, 0.13),
            mean_return=(253.4, 5.0),
            outcomes={"crash": (0.051, 0.006), "out of map": (0.000, 0.000)},
        ),
        "Wide": PublishedRow(
            success=(0.722, 0.029),
            training_failures=(3.5, 0.25),
            mean_return=(151.6, 18.5),
            outcomes={"crash": (0.166, 0.009), "out of map": (0.024, 0.011)},
        ),
        "Narrow": PublishedRow(
            success=(0.817, 0.010),
            training_failures=(1.3, 0.03),
            mean_return=(221.0, 2.1),
            outcomes={"crash": (0.163, 0.002), "out of map": (0.000, 0.000)},
        ),
        "No-interv.": PublishedRow(
            success=(0.945, 0.010),
            training_failures=(1175.0, 80.56),
            mean_return=(256.4, 3.7),
            outcomes={"crash": (0.045, 0.009), "out of map": (0.001, 0.000)},
        ),
    },
    students=("one-layer", "one-layer-relu"),
    main={
        "Optimized": MainRow(mean_return=254.5, success=0.922, test_failures=0.066, training_failures=2.2),
        "Narrow": MainRow(mean_return=220.4, success=0.833, test_failures=0.159, training_failures=1.3),
        "Wide": MainRow(mean_return=119.9, success=0.674, test_failures=0.176, training_failures=4.0),
        "No-interv.": MainRow(mean_return=248.7, success=0.924, test_failures=0.061, training_failures=1368.1),
    },
)
LUNAR_LANDER = replace(_TWO_LAYERS, transfers=(_NOISY, _ONE_LAYER))
