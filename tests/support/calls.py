"""The command line, called in this process."""

import contextlib
import io

from cisr.cli import main


def call(*words) -> tuple[int, str, str]:
    """The exit code, and what was printed on standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
    raise AssertionError("a command ends with an exit code")


def refused(*words) -> str:
    """The one line that a wrong call gets."""
    code, _, err = call(*words)
    assert code == 2, err
    (line,) = err.strip().splitlines()
    assert line.startswith("cisr: ")
    return line
