"""Certificates against play: random finite tasks, a third of them honest, in the others one function is spoilt.

    python benchmarks/certificates.py --tasks 2000 --json docs/results/certificates.json

A spoilt function keeps state, draws, reads the time, looks at the batch, changes what it is shown, or counts on a type
of numbers. Each task is audited as `cisr train` does, and what is certified is played: 4,000 steps of random actions,
in one environment and in four.

What must never happen is a failure under an intervention that is certified, a certificate where an independent
recursion over the model finds a policy that fails, or an honest task that is accused or loses the certificate that the
recursion gives it. Tasks depend on `--seed` alone; a small part runs in the tests.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from fragile import HONEST, Judged, fragile_task, judged  # noqa: E402

from cisr.core.version import __version__  # noqa: E402


def row(cases: list[Judged]) -> dict[str, int]:
    return {
        "tasks": len(cases),
        "promises named": sum(bool(case.named) for case in cases),
        "certified": sum(case.certified for case in cases),
        "contradicted": sum(case.contradicted for case in cases),
        "accused though honest": sum(case.accused for case in cases),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # numbers that wrap around warn
    by_way: dict[str, list[Judged]] = defaultdict(list)
    by_type: Counter[str] = Counter()
    wrong: list[str] = []
    begun = time.perf_counter()

    def found() -> str:
        told = {
            "command": f"python benchmarks/certificates.py --tasks {sum(by_type.values())} --seed {given.seed}",
            "cisr": __version__,
            "all": row([case for cases in by_way.values() for case in cases]),
            "ways": {way: row(by_way[way]) for way in sorted(by_way, key=lambda way: (way != HONEST, way))},
            "types of numbers": dict(sorted(by_type.items())),
            "wrong": wrong,
        }
        return json.dumps(told, indent=2)

    for number in range(given.tasks):
        case = fragile_task(np.random.default_rng([given.seed, number]))
        seen = judged(case, number)
        by_way[case.way].append(seen)
        by_type[case.typed] += 1
        if seen.contradicted or seen.accused:
            wrong.append(f"task {number}, {case.way} {case.what}: failures {seen.failures}, named {seen.named}")
            print(wrong[-1], flush=True)
        if (number + 1) % 50 == 0:
            print(f"{number + 1} tasks, {time.perf_counter() - begun:.0f} s", flush=True)
            if given.json:
                given.json.write_text(found() + "\n")
    print(found())
    if given.json:
        given.json.write_text(found() + "\n")


if __name__ == "__main__":
    main()
