"""TensorBoard's log of a store: a folder of event files, a run for each student and for each study.

The log says what the store says and is never read: it is written from the store, and a run that goes on adds to it what
happens. A run that is resumed writes it anew, so that no unit is there twice and none is missing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

from cisr.core.callback import ProgressEvent
from cisr.core.checks import check_kind
from cisr.core.errors import ConfigError, described
from cisr.core.libraries import installed, needed
from cisr.experiments.study import TrialProgress
from cisr.export.places import check_folder_target, file_part
from cisr.store import Store
from cisr.store.meaning import making_sense_of
from cisr.system.files import writing
from cisr.training import BatchProgress, Checkpoint, Graduation, StudentSpec, Transcript
from cisr.view.contents import StudyRecord

if installed("tensorboard"):
    from cisr.export.tensorboard_events import Shown, end_shown, records, student_shown, study_shown, unit_shown

log = logging.getLogger(__name__)

EVENT_FILE = "events.out.tfevents.{time}.cisr"
OURS = re.compile(re.escape(EVENT_FILE).replace(re.escape("{time}"), r"\d+"))
"""Names of our event files; all others are left alone."""


class TensorBoard:
    """A callback that shows a study or comparison in TensorBoard while it runs; use it as a context.

    >>> with Store("runs/lake.sqlite") as store, TensorBoard("runs/log", store) as board:  # doctest: +SKIP
    ...     Study(task, store=store).run(board)

    The folder is this store's: what a log of cisr's was there before is replaced. A log that can no longer be written,
    on a full disk for instance, does not stop the run.
    """

    def __init__(self, folder: Path | str, store: Store) -> None:
        needed("tensorboard", "TensorBoard", "export")
        check_kind("The folder of TensorBoard's log", folder, (str, Path), "a text or a Path")
        check_kind("The store of TensorBoard's log", store, Store, "a cisr.Store")
        self._folder = Path(folder)
        check_folder_target(self._folder, "The folder of TensorBoard's log")
        self._store = store
        self._constraints: Sequence[str] = ()
        self._units: dict[str, int] = {}  # written of each student
        self._ended: set[str] = set()  # students whose end is written
        self._studies: dict[str, list[Shown]] = {}  # what is written of each
        self._files: dict[str, Path] = {}  # by run
        self._begun = self._broken = False

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._carefully(self._conclude)

    def __call__(self, heard: ProgressEvent) -> None:
        """Whatever is heard is in the store already: the first event has all of it written."""
        if not self._begun:
            self._carefully(self._begin)
        elif isinstance(heard, TrialProgress):
            self._carefully(self._write_studies)
        elif isinstance(heard, BatchProgress) and isinstance(heard.event, Checkpoint | Graduation):
            students, event = heard.batch.students, heard.event
            self._carefully(lambda: self._hear(students, event))

    def write(self) -> None:
        """All that the store holds; what of it was there before is replaced in the end."""
        try:
            self._begin()
            self._conclude()
        except BaseException:
            _remove(self._files.values())
            raise

    def _carefully(self, write: Callable[[], None]) -> None:
        try:
            if not self._broken:
                write()
        except (OSError, ConfigError) as error:
            self._broken = True
            log.warning("TensorBoard's log ends here, the run goes on: %s", described(error))

    def _begin(self) -> None:
        self._begun = True
        before = [path for path in self._folder.rglob("*") if OURS.fullmatch(path.name) and path.is_file()]
        self._constraints = self._store.settings().get("definition", {}).get("constraints", ())
        for student in self._store.transcripts():
            self._write_student(student)
        self._write_studies()
        _remove(before)

    def _conclude(self) -> None:
        if not self._begun:
            self._begin()
        self._write_studies(with_beliefs=True)

    def _hear(self, students: Sequence[StudentSpec], event: Checkpoint | Graduation) -> None:
        kept = event.records if isinstance(event, Checkpoint) else (None,) * len(students)
        for name, record in zip((student.name for student in students), kept, strict=True):
            if record is None and name not in self._ended:
                if (end := end_shown(self._store.transcript(name))) is not None:
                    self._add(name, [end])
                    self._ended.add(name)
            elif record is not None and record.log.unit == self._units.get(name, 0) + 1:
                self._add(name, [unit_shown(record.log, self._constraints)])
                self._units[name] = record.log.unit
            elif record is not None:  # it has begun again
                self._write_student(self._store.transcript(name))

    def _write_student(self, student: Transcript) -> None:
        self._rewrite(student.name, student_shown(student, self._constraints))
        self._units[student.name] = len(student.units)
        (self._ended.add if student.deployment or student.error else self._ended.discard)(student.name)

    def _write_studies(self, with_beliefs: bool = False) -> None:
        """What teachers believe is known when their search is over; until then, what an earlier end of it found."""
        found = self._store.findings() if with_beliefs else {}
        for name, run in self._store.runs().items():
            rounds = tuple(self._store.trials(name))
            study = StudyRecord(
                name=name, run=run, rounds=rounds, classes=(), found=found.get(name), over=name in found
            )
            now = study_shown(study)
            before = self._studies.get(name, [])
            if before and now[: len(before)] == before:
                self._add(name, now[len(before) :])
            elif now:
                self._rewrite(name, now)
            self._studies[name] = now

    def _rewrite(self, run: str, shown: Sequence[Shown]) -> None:
        """In a file of another name: TensorBoard may be reading the one before."""
        folder = self._folder.joinpath(*map(file_part, run.split("/")))
        path = folder / EVENT_FILE.format(time=time.time_ns())
        with writing(path) as aside:
            aside.write_bytes(records(shown, begins=True))
        _remove([self._files[run]] if run in self._files else [])
        self._files[run] = path

    def _add(self, run: str, shown: Sequence[Shown]) -> None:
        if run not in self._files:
            self._rewrite(run, shown)
        elif shown:
            with self._files[run].open("ab") as file:
                file.write(records(shown, begins=False))


def export_tensorboard(store: Path, folder: Path) -> Path:
    """The log of a store as it is now."""
    with Store(store, read_only=True) as opened, making_sense_of(opened):
        TensorBoard(folder, opened).write()
    return folder


def _remove(files: Iterable[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
