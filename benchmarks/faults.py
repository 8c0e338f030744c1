"""A hostile campaign: kills, damaged stores, full disks, faulty environments, bad input.

    python benchmarks/faults.py --kills 1000 --damages 1000 --disks 200 --environments 100 --inputs --json faults.json

What must never happen is a wrong result, or a traceback.
- *Kills*: small studies on both backends lose their main process, all their processes, a worker or an idle worker to
  SIGKILL, at any time, after a unit or in the middle of a write, and go on until they are done. A unit that was on disk
  must still be there, no worker may outlive its main process, and every cell and weight of the finished store must be
  that of a study that nobody disturbed.
- *Damages*: stores lose files, ends of files or single bits. Then reports are read and the same commands run again: the
  result must be the same as without the damage, or one line must say what is wrong; `cisr check` must overlook nothing.
- *Disks* fill up under a store and its weights, or under the files that a command writes: one line, nothing lost, no
  part of a file in the place of a whole one, and once there is room the result of a disk that was large enough.
- *Environments* raise, hang, die, answer nonsense, fork, print and leak, on both backends: one line, no other student's
  numbers change, no process is left, and without the fault the same command ends well.
- *Inputs*: wrong command lines, streams and Python calls. One line that says what is wrong, or our own error.

Cases depend on `--seed` alone; a campaign goes on with another seed, which has other cases. A small part of each runs
in the tests. `docs/results/faults.md` says what was found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from cisr.cli import main as command_line  # noqa: E402
from cisr.core.errors import CisrError  # noqa: E402

Judged = tuple[str, str]
"""What was tried, and what was wrong with it; nothing if all was well."""
MOST_CASES = 10**6
"""Of one seed, so that those of two seeds are different ones."""


def kills(n: int, seed: int, folder: Path) -> Iterator[Judged]:
    import kills as campaign

    def of(backend: str) -> Iterator[Judged]:
        for outcome in campaign.killed(folder, backend, -(-n // len(campaign.TASKS)), seed):
            if isinstance(outcome, str):
                yield f"{backend}: finished studies", outcome
            else:
                wrong = [f"{outcome.lost} units lost"] * bool(outcome.lost)
                wrong += [f"{outcome.orphans} workers lived on"] * bool(outcome.orphans)
                yield f"{backend}: kills of {outcome.victim}, {outcome.when}", ", ".join(wrong)

    yield from side_by_side([of(backend) for backend in campaign.TASKS])


def side_by_side(campaigns: list[Iterator[Judged]]) -> Iterator[Judged]:
    """Each in a thread of its own: they wait for other processes most of the time."""
    found: queue.SimpleQueue[Judged | BaseException | None] = queue.SimpleQueue()

    def judge(cases: Iterator[Judged]) -> None:
        try:
            for judged in cases:
                found.put(judged)
            found.put(None)
        except BaseException as error:
            found.put(error)

    for cases in campaigns:
        threading.Thread(target=judge, args=(cases,), daemon=True).start()
    running = len(campaigns)
    while running:
        judged = found.get()
        if isinstance(judged, BaseException):
            raise judged
        if judged is None:
            running -= 1
        else:
            yield judged


def damages(n: int, seed: int, folder: Path) -> Iterator[Judged]:
    import damage

    patient = damage.Patient.make(folder)
    for number in range(n):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            outcome = damage.suffer(patient, seed * MOST_CASES + number, Path(scratch))
        wrong = f"{outcome.harm}: {'; '.join(outcome.wrong)}" if outcome.wrong else ""
        yield "damages, " + ("one line" if outcome.lines else "same result"), wrong


def disks(n: int, seed: int, folder: Path) -> Iterator[Judged]:
    import damage
    import full_disks

    patient = damage.Patient.make(folder)
    mountable = full_disks.can_mount(folder)
    for number in range(n):
        case = full_disks.drawn(seed * MOST_CASES + number, mountable)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            full, wrong = full_disks.suffer(case, patient, Path(scratch))
        what = "a store and its weights" if case.of == "store" else case.of
        yield f"disks, {what}: {'full' if full else 'large enough'}", f"{case}: {'; '.join(wrong)}" if wrong else ""


def environments(n: int, seed: int, folder: Path) -> Iterator[Judged]:
    import faulty_runs

    def of(backend: str, share: int) -> Iterator[Judged]:
        calm = faulty_runs.undisturbed(folder, backend)
        for number in range(share):
            case = faulty_runs.drawn(seed * MOST_CASES + number, backend)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                wrong = faulty_runs.suffer(case, Path(scratch), calm)
            yield f"{backend}: environment {case.kind}", f"{case}: {'; '.join(wrong)}" if wrong else ""

    yield from side_by_side([of("gymnasium", n - n // 3), of("compiled", n // 3)])


def command_lines(folder: Path) -> Iterator[Judged]:
    import bad_input

    bad_input.prepare(folder)
    for case in bad_input.COMMAND_LINES:
        said, code = io.StringIO(), None
        with contextlib.chdir(folder), contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                command_line(case.words)
            except SystemExit as end:
                code = end.code
            except BaseException as error:
                said.write(repr(error))
        lines = said.getvalue().splitlines()
        well = code == 2 and len(lines) == 1 and case.says in lines[0]
        yield "command lines", "" if well else f"{' '.join(case.words)[:80]}: exit code {code}, {lines[-1:]}"
    environment = {**os.environ, "CISR": f"{sys.executable} -m cisr"}
    environment["PYTHONPATH"] = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    for shell in bad_input.SHELL_LINES:
        done = subprocess.run(["sh", "-c", shell.line], cwd=folder, env=environment, capture_output=True, text=True)
        asked_for = shell.says == "Traceback"  # by --debug
        well = done.returncode == shell.code and shell.says in done.stderr
        well &= asked_for or "Traceback" not in done.stderr
        yield "streams", "" if well else f"{shell.line[:80]}: exit code {done.returncode}"


def calls() -> Iterator[Judged]:
    import bad_calls

    for case in bad_calls.CALLS:
        try:
            case.call()
        except Exception as error:
            well = isinstance(error, CisrError) and case.says in str(error)
            yield "Python calls", "" if well else f"{case.name}: {error!r}"
        else:
            yield "Python calls", f"{case.name}: no error"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, help="how many, on both backends together")
    parser.add_argument("--damages", type=int, default=0, help="how many")
    parser.add_argument("--disks", type=int, default=0, help="how many that fill up")
    parser.add_argument("--environments", type=int, default=0, help="how many faulty ones, on both backends together")
    parser.add_argument("--inputs", action="store_true", help="all command lines, streams and calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to put what was tried and what was wrong")
    given = parser.parse_args()
    tried: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    progress = Console(stderr=True)
    with tempfile.TemporaryDirectory() as name, progress.status("") as status:
        folder = Path(name)
        # Who starts a thousand times compiles as little as can be.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        for part in ("kills", "damages", "disks", "environments", "inputs"):
            (folder / part).mkdir()
        campaign: list[Iterator[Judged]] = [kills(given.kills, given.seed, folder / "kills")] if given.kills else []
        campaign += [damages(given.damages, given.seed, folder / "damages")] if given.damages else []
        campaign += [disks(given.disks, given.seed, folder / "disks")] if given.disks else []
        if given.environments:
            campaign += [environments(given.environments, given.seed, folder / "environments")]
        campaign += [command_lines(folder / "inputs"), calls()] if given.inputs else []
        for cases in campaign:
            for what, fault in cases:
                tried[what] += 1
                wrong.setdefault(what, []).extend([fault] if fault else [])
                status.update(f"{sum(tried.values())} cases, {sum(map(len, wrong.values()))} wrong; {what}")
                if given.json:
                    record: dict[str, Any] = {"seed": given.seed, "tried": dict(tried), "wrong": wrong}
                    given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    table = Table("what", "tried", "clear", "wrong")
    for what, n in tried.items():
        table.add_row(what, str(n), str(n - len(wrong[what])), str(len(wrong[what])))
    Console().print(table)
    for faults in wrong.values():
        for fault in faults:
            Console().print(fault, markup=False, highlight=False)
    sys.exit(1 if any(wrong.values()) else 0)


if __name__ == "__main__":
    main()
