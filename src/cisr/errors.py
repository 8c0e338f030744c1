"""Errors that a user can mend. Each message says what was given, what was expected and how to mend it."""


class CisrError(Exception):
    """Anything that the command line reports in one line, with exit code 2."""


class ConfigError(CisrError):
    """Something the user wrote does not make sense: a name, a number, a file, a combination."""


class TaskError(CisrError):
    """The user's environment, trigger, reset or danger predicate broke its contract."""


class StoreError(CisrError):
    """A store cannot be read or written."""
