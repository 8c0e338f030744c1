"""Students that were taught elsewhere, to compare ours with."""

from __future__ import annotations

import csv
from pathlib import Path

from cisr.errors import ConfigError
from cisr.report.contents import read

EXPECTED = "give a CSV file with a header and the columns curriculum and success, one line for each student"


def successes_in(path: Path) -> dict[str, list[float]]:
    """By curriculum, the success of each student of a CSV file or of another store's comparisons."""
    found = _of_csv(path) if path.suffix.lower() == ".csv" else _of_store(path)
    if not found:
        raise ConfigError(f"{path} holds no students that have finished: {EXPECTED}, or the store of a comparison.")
    return found


def _of_store(path: Path) -> dict[str, list[float]]:
    return {group.label: group.successes for group in read(path).groups if group.successes}


def _of_csv(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                success = float(line["success"])
                if not 0 <= success <= 1:
                    raise ValueError(f"a success of {success} is not between 0 and 1")
                found.setdefault(line["curriculum"], []).append(success)
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except KeyError as error:
        raise ConfigError(f"{path} has no column {error}: {EXPECTED}.") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"Cannot read the students in {path}: {error}; {EXPECTED}.") from error
    return found
