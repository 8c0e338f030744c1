"""What TensorBoard is shown of students and studies: scalars and texts by step, as records of its event files.

Steps are units of a student, and trials of a study. What nobody knows is left out: it is not 0.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.record_writer import RecordWriter

from cisr.training import Deployment, Transcript, UnitLog
from cisr.view.contents import StudyRecord
from cisr.view.words import in_words

VERSION = "brain.Event:2"
"""How every event file begins."""


class Shown(NamedTuple):
    """What is shown at one step."""

    step: int
    values: Mapping[str, float | str | None]
    """By tag; None where nobody knows."""
    seconds: float = 0.0
    """How long it took to get here from the step before."""


def unit_shown(unit: UnitLog, constraints: Sequence[str]) -> Shown:
    values: dict[str, float | str | None] = {
        "training/return": unit.mean_return,
        "training/success": unit.success,
        "training/violation": unit.violation,
        "training/rescues": unit.rescues,
        "training/failures": unit.failures,
        "training/driven steps": unit.driven,
        "training/episodes": unit.episodes,
        "training/steps": unit.steps,
        "intervention": unit.intervention,
    }
    for name, multiplier in zip(_named(constraints, len(unit.multipliers)), unit.multipliers, strict=True):
        values[f"multipliers/{name}"] = multiplier
    if unit.evaluation is not None:
        values |= _deployed("evaluation", unit.evaluation)
    if unit.deployment is not None:
        values |= _deployed("deployment", unit.deployment)
    return Shown(unit.unit, values, unit.seconds)


def end_shown(student: Transcript) -> Shown | None:
    """How a student ended, at its last unit; None before it has."""
    if student.error is not None:
        return Shown(len(student.units), {"final/error": student.error})
    if student.deployment is None:
        return None
    return Shown(
        len(student.units), {**_deployed("final", student.deployment), "final/score": student.deployment.score}
    )


def student_shown(student: Transcript, constraints: Sequence[str]) -> list[Shown]:
    end = end_shown(student)
    return [*(unit_shown(unit, constraints) for unit in student.units), *([] if end is None else [end])]


def study_shown(study: StudyRecord) -> list[Shown]:
    """Trials that were told, and what the teacher believes in the end."""
    shown: list[Shown] = []
    best = -math.inf
    for number, trial in enumerate(study.rounds):
        if not trial.told:
            break
        values: dict[str, float | str | None] = {"trial/curriculum": in_words(study.policy(trial.parameters))}
        if trial.score is None:
            values["trial/error"] = "No student of this trial has finished."
        else:
            best = max(best, trial.score)
            values |= {"trial/score": trial.score, "trial/best score": best, "trial/standard error": trial.sem}
        shown.append(Shown(number, values))
    belief = (study.found or {}).get("belief")
    if belief and shown:
        known = {f"belief/{name}": belief.get(name) for name in ("score", "bound", "confidence", "students")}
        shown.append(Shown(shown[-1].step, {**known, "belief/curriculum": in_words(study.best or {})}))
    return shown


def _deployed(where: str, deployment: Deployment) -> dict[str, float | str | None]:
    return {
        f"{where}/return": deployment.mean_return,
        f"{where}/success": deployment.success,
        f"{where}/failures per episode": deployment.failures_per_episode,
        f"{where}/rescues": deployment.rescues,
    }


def _named(constraints: Sequence[str], n: int) -> list[str]:
    return list(constraints) if len(constraints) == n else [str(k) for k in range(n)]


def records(shown: Sequence[Shown], *, begins: bool) -> bytes:
    """Event records; `begins` is whether a file begins with them. The last of them is of now, the others as much
    earlier as it took to get here from there: stores keep durations and no dates."""
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    moment = time.time() - sum(at.seconds for at in shown)
    if begins:
        writer.write(Event(wall_time=moment, file_version=VERSION).SerializeToString())
    for at in shown:
        moment += at.seconds
        values = [_value(tag, value) for tag, value in at.values.items() if _is_known(value)]
        writer.write(Event(wall_time=moment, step=at.step, summary=Summary(value=values)).SerializeToString())
    return buffer.getvalue()


def _is_known(value: float | str | None) -> bool:
    return isinstance(value, str) or (value is not None and math.isfinite(value))


def _value(tag: str, value: Any) -> Summary.Value:
    tag = tag.encode(errors="replace").decode()
    if not isinstance(value, str):
        return Summary.Value(tag=tag, simple_value=float(value))
    said = [value.encode(errors="replace")]
    text = TensorProto(dtype=DT_STRING, string_val=said, tensor_shape=TensorShapeProto())
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Summary.Value(tag=tag, tensor=text, metadata=plugin)
