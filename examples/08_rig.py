"""A rig: its student learns in a process that knows nothing of cisr but JSON. Stop it at any time, start it again."""

import json
import random
from pathlib import Path
from subprocess import check_output
from typing import Any

NEW = "--task quay --interventions rope,fence --units 2 --initial 2 --rounds 1 --rig crane"


def cisr(command: str, *options: str, **said: Any) -> Any:
    return json.loads(check_output(["cisr", command, "runs/quay.sqlite", *options], input=json.dumps(said), text=True))


def walks(values: Any, keeper: str, rng: random.Random, explore: float = 0.3) -> dict[str, float]:
    """100 along a quay, from tile 2 to its end, 6. Tile 0 is the water: a rope pulls students out, a fence is on 1."""
    edge, counts = {"rope": 0, "fence": 1}.get(keeper, -1), {"reached": 0, "rescues": 0, "failures": 0}
    for tile in [2] * 100:
        while 0 < tile < 6:
            action = rng.randrange(2) if rng.random() < explore else int(values[tile][1] > values[tile][0])
            moved = tile + (1 if action == (rng.random() < 0.8) else -1)
            after, reward = (edge + 1, -0.2) if moved <= edge else (moved, (moved == 6) - (moved == 0))
            values[tile][action] += 0.1 * (reward + 0.9 * max(values[after]) - values[tile][action])
            tile, counts["rescues"] = after, counts["rescues"] + (moved <= edge)
        counts["reached" if tile == 6 else "failures"] += 1
    return {"mean_return": counts.pop("reached") / 100, "violation": counts["rescues"] / 100, **counts}


while (now := cisr("ask", *NEW.split()))["trial"]:
    memory, aside = Path("runs", now["trial"].replace("/", "-")), Path("runs/new.json")
    student = json.loads(memory.read_text() if memory.exists() else f'{{"unit": 0, "values": {[[0, 0]] * 7}}}')
    while now["unit"]:
        if student["unit"] < now["unit"]:  # else it was stopped after this unit, before it could say how that went
            observed = walks(student["values"], now["intervention"], random.Random(str(now)))
            aside.write_text(json.dumps({**student, "unit": now["unit"], "observed": observed}))
            student = json.loads(aside.replace(memory).read_text())
        now = cisr("next", trial=now["trial"], unit=now["unit"], observed=student["observed"])
    cisr("tell", trial=now["trial"], score=walks(student["values"], "none", random.Random(0), 0)["mean_return"])
print(now["policy"])
