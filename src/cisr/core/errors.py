"""Errors that a user can mend. Each message says what was given, what was expected and how to mend it."""

import errno
from pathlib import Path
from traceback import extract_tb


class CisrError(Exception):
    """Anything that the command line reports in one line, with exit code 2."""


class ConfigError(CisrError):
    """Something the user wrote does not make sense: a name, a number, a file, a combination."""


class NotInstalled(ConfigError):  # noqa: N818 (an error in name enough)
    """The environment of a task needs a package that is not there."""


class TaskError(CisrError):
    """The user's environment, trigger, reset or danger predicate broke its contract."""


class AnswerError(TaskError):
    """One environment answered what its spaces do not allow. It concerns that environment alone."""


class StoreError(CisrError):
    """A store cannot be read or written."""


class NobodyFinished(CisrError):  # noqa: N818 (an error in name enough)
    """Not one student got to its end, so there is no result; exit code 1."""


def described(error: BaseException) -> str:
    """What was raised and where, in one line that can be written; our own errors speak for themselves."""
    if isinstance(error, CisrError):
        return writable(str(error))
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return writable(f"{type(error).__name__}: {' '.join(words_of(error).split())}{where}")


def words_of(error: BaseException) -> str:
    """What an error says, if it can."""
    try:
        return writable(str(error))
    except Exception:  # whoever wrote it may have made a mistake there, too
        return "(it cannot say what)"


def writable(text: str) -> str:
    """A text with its half characters, which no file, store or database takes, written out, and so what would steer a
    terminal."""
    whole = text.encode(errors="backslashreplace").decode()
    return "".join(c if c.isprintable() or c.isspace() else ascii(c)[1:-1] for c in whole)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the host, or the device that JAX uses, had too little memory: said by Python, the system or JAX."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    said = words_of(error)
    if isinstance(error, ImportError | OSError | RuntimeError):
        # A library that cannot be mapped, a thread that cannot be had, and JAX's own errors, which are RuntimeErrors.
        signs = ("Cannot allocate memory", "can't start new thread", "RESOURCE_EXHAUSTED", "OUT_OF_MEMORY")
        return any(sign in said for sign in signs)
    return False
