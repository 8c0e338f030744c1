"""What is played beside training (audits, episodes for pictures, films): in a process of its own, because an
environment or its renderer may block or crash there; with `n_workers=0` in this one, where only Python code can be
interrupted.

Whoever plays is given the task first, with an eye on all that the user has written: see `timed`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from cisr.core.errors import CisrError, TaskError
from cisr.core.intervention import Drive, Intervention, Override, Place
from cisr.core.libraries import GYMNASIUM
from cisr.core.task import Task, place_tabular, read_tabular
from cisr.core.timed import Timed, looked_at_by
from cisr.system.interrupts import users_errors
from cisr.system.loading import check_not_loading
from cisr.training.process import LOOK_EVERY, NOT_STARTED, Child, cannot_start
from cisr.training.registrations import registrations
from cisr.training.watch import STEP_TIMEOUT, Alarm, SharedWatch, check_step_timeout, too_slow
from cisr.training.worker import Broken, broken_by, own_channels, receive, send

if GYMNASIUM:
    from cisr.cmdp.time_limits import shortened, time_limit

log = logging.getLogger(__name__)

ON_THE_CPU = {"JAX_PLATFORMS": "cpu"}
"""For what plays while this process holds an accelerator's memory."""
Tell = Callable[..., None]
ATTEMPTS = 2


class Unanswered(TaskError):  # noqa: N818 (an error in name enough)
    """An environment that blocks, or that ended its process."""


class Killed(Unanswered):
    """Its process was killed, which only others do: it is tried once more."""


class Work(NamedTuple):
    play: Callable[..., Any]
    task: Task
    arguments: tuple[Any, ...]


class Said(NamedTuple):
    """Something on the way."""

    arguments: tuple[Any, ...]


class Done(NamedTuple):
    result: Any


class Refused(NamedTuple):
    """An error of ours."""

    kind: type[CisrError]
    message: str


def play_apart(
    play: Callable[..., Any],
    task: Task,
    *arguments: Any,
    n_workers: int | None = None,
    step_timeout: float = STEP_TIMEOUT,
    listen: Tell = lambda *said: None,
    environment: Mapping[str, str] = ON_THE_CPU,
) -> Any:
    """`play(task, *arguments, tell)` elsewhere; what it tells on the way is heard by `listen`, its result is returned.

    Errors of ours are raised here as they were there; `Unanswered` is raised for an environment that takes too long or
    ends its process, and TaskError for all else that was raised.
    """
    check_not_loading()
    limit = check_step_timeout(step_timeout)
    if n_workers == 0:
        return _play_here(play, task, arguments, limit, listen)
    heard = 0

    def hear(number: int, said: Said) -> None:
        nonlocal heard
        if number == heard:  # who is tried once more says it all again
            heard += 1
            listen(*said.arguments)

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _play_there(Work(play, task, arguments), limit, hear, environment)
        except Killed:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _play_there(work: Work, limit: float, hear: Callable[[int, Said], None], environment: Mapping[str, str]) -> Any:
    child = Child("cisr.training.apart", PYGAME_HIDE_SUPPORT_PROMPT="1", **environment)
    arrivals: queue.SimpleQueue[Any] = queue.SimpleQueue()
    listener = threading.Thread(target=child.pass_on, args=(arrivals,), daemon=True)
    said = 0
    try:
        listener.start()
        child.send(registrations())
        child.send(work)
        while True:
            if child.watch.overdue(limit):
                raise Unanswered(_capital(f"{too_slow(work.task.name, limit)}."))
            try:
                message = arrivals.get(timeout=LOOK_EVERY)
            except queue.Empty:
                continue
            if isinstance(message, Done):
                return message.result
            if isinstance(message, Said):
                hear(said, message)
                said += 1
            else:
                raise _error_of(message, work.task, child)
    finally:
        child.kill()
        listener.join()
        child.close()


def _play_here(play: Callable[..., Any], task: Task, arguments: tuple[Any, ...], limit: float, listen: Tell) -> Any:
    with Alarm(limit, complaint := too_slow(task.name, limit)) as alarm, looked_at_by(alarm):
        try:
            result = play(timed(task), *arguments, listen)
        except CisrError:
            if not alarm.rung:
                raise
        except users_errors() as error:
            if not alarm.rung:
                raise _raised(task, broken_by(error)) from error
    if alarm.rung:  # also where the error was taken for an answer
        raise Unanswered(_capital(f"{complaint}."))
    return result


def _error_of(message: Any, task: Task, child: Child) -> CisrError:
    if isinstance(message, Refused):
        return message.kind(message.message)
    if isinstance(message, Broken):
        return CisrError(message.message) if message.users_fault else _raised(task, message)
    cause = child.died_of()
    if cause == f"exit code {NOT_STARTED}":
        return CisrError(cannot_start(cause))
    kind = Killed if cause == f"signal {signal.SIGKILL}" else Unanswered
    return kind(f"The environment of task '{task.name}' ended the process in which it was played ({cause}).")


def _raised(task: Task, broken: Broken) -> TaskError:
    error = TaskError(f"Task '{task.name}' could not be played: {broken.message}.")
    error.add_note(broken.details)
    return error


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


_known: list[tuple[Any, int | None]] = []
"""Functions that make environments, with the time limits of those."""
_said: set[str] = set()


def rehearse(task: Task, n_workers: int | None, step_timeout: float) -> None:
    """See that an environment can be made without blocking or crashing, before this process makes one itself, and say
    where its own time limit is the horizon. What it raises is for its students to say. Asked again, it is not made
    again, and nothing is said twice."""
    if not any(make_env is task.make_env for make_env, _ in _known):
        _known.append((task.make_env, _rehearsed(task, n_workers, step_timeout)))
    limit = next(limit for make_env, limit in _known if make_env is task.make_env)
    if limit is not None and (line := shortened(task, limit)) is not None:
        say_once(line)


def say_once(line: str) -> None:
    """A warning, however often the same is found."""
    if line not in _said:
        _said.add(line)
        log.warning("%s", line)


def _rehearsed(task: Task, n_workers: int | None, step_timeout: float) -> int | None:
    """The time limit of an environment; None where it has none, or cannot be made."""
    try:
        limit: int | None = play_apart(_make, task, n_workers=n_workers, step_timeout=step_timeout)
    except Unanswered:
        raise
    except CisrError as error:
        log.debug("An environment could not be made: %s", error)
        return None
    return limit


def _make(task: Task, tell: Tell) -> int | None:
    env = task.make_env()
    env.close()
    return time_limit(env)


# The eye on the user's code


def timed(task: Task) -> Task:
    """The task, looked at wherever the user's code is asked."""
    return replace(
        task,
        make_env=_timed_environments(task.make_env),
        danger=_each(task.danger),
        success=Timed(task.success),
        reward=task.reward and Timed(task.reward),
        read_state=task.read_state if task.read_state is read_tabular else Timed(task.read_state),
        place=task.place if task.place is place_tabular else task.place and Timed(task.place),
        save=task.save and Timed(task.save),
        restore=task.restore and Timed(task.restore),
        interventions=tuple(map(_timed_intervention, task.interventions)),
    )


def _timed_environments(make_env: Callable[..., Any]) -> Callable[..., Any]:
    make = Timed(make_env)

    def make_timed(**options: Any) -> Any:
        env = make(**options)
        for name in ("reset", "step", "render", "close"):
            with contextlib.suppress(AttributeError):  # it is no environment, which others will say
                setattr(env, name, Timed(getattr(env, name)))
        return env

    return make_timed


def _timed_intervention(intervention: Intervention) -> Intervention:
    reset = intervention.reset
    match reset:
        case Place(fn):
            reset = replace(reset, fn=Timed(fn))
        case Drive(controller, until):
            reset = replace(reset, controller=Timed(controller), until=until and Timed(until))
        case Override(act):
            reset = replace(reset, act=Timed(act))
    return replace(intervention, trigger=_each(intervention.trigger), reset=reset)


def _each(predicates: Any) -> Any:
    return Timed(predicates) if callable(predicates) else {name: Timed(fn) for name, fn in predicates.items()}


# In the process that plays


def main(page: int) -> None:
    asked, outbox = own_channels()
    inbox = receive(asked)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory: no display is needed
    try:
        work = next(inbox)
        if isinstance(work, Broken):
            send(outbox, work)
        else:
            threading.Thread(target=_end_with_parent, args=(inbox,), daemon=True).start()
            with looked_at_by(SharedWatch(page)):
                result = work.play(timed(work.task), *work.arguments, lambda *said: send(outbox, Said(said)))
            send(outbox, Done(result))
    except CisrError as error:
        send(outbox, Refused(type(error), str(error)))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        send(outbox, broken_by(error))
    outbox.close()
    os._exit(0)


def _end_with_parent(inbox: Any) -> None:
    for _ in inbox:
        pass
    os._exit(0)
