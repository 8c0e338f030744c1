"""Is a store whole? What was looked at, what is damaged, and what can be done about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cisr.core.errors import StoreError
from cisr.store import Store
from cisr.store.checksums import DamagedStore
from cisr.store.database import Database
from cisr.store.nonsense import nonsense
from cisr.store.place import in_use, real_path
from cisr.store.schema import FIRST_WITH_CHECKSUMS, FORMAT, TABLES
from cisr.store.weights import Weights, file_name

MOST_NAMED = 10
BEGIN_ANEW = (
    "Bring the store back from a copy, or remove it with its weights and run the same commands again: on the same "
    "machine they give the same numbers."
)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """How a store is."""

    path: Path
    format: int = FORMAT
    n_rows: int = 0
    n_files: int = 0
    in_use: bool = False
    """Then weights were left out: files come and go."""
    damage: tuple[str, ...]
    """What is wrong with the database."""
    lost: Mapping[str, tuple[str, ...]]
    """Batches whose weights are missing or damaged, with the students in them."""

    @property
    def whole(self) -> bool:
        return not self.damage and not self.lost

    def in_words(self) -> list[str]:
        if self.damage:
            return [*(f"Damaged: {what}." for what in self.damage), BEGIN_ANEW]
        files = "its weights not, it is in use" if self.in_use else f"{self.n_files} files of weights"
        said = [f"Looked at {self.n_rows:,} rows in {len(TABLES)} tables; {files}."]
        if self.format < FIRST_WITH_CHECKSUMS:
            said += [f"It is of format {self.format}, without checksums: its next run adds them."]
        if self.whole:
            return [*said, f"The store {self.path} is whole."]
        said += [f"Damaged or missing: the weights of batch '{batch}'." for batch in self.lost]
        return [*said, self._what_can_be_done()]

    def _what_can_be_done(self) -> str:
        return (
            f"Results are not affected; without these weights nobody can go on with the students in them that have not "
            f"finished, or show what the others do. Bring the files back from a copy, or `cisr check {self.path} "
            f"--mend`: then the next run of the same commands trains {self.students} again, from the first unit."
        )

    @property
    def students(self) -> str:
        names = [name for batch in self.lost.values() for name in batch]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return ", ".join(names[:MOST_NAMED]) + more


def check(path: Path) -> Condition:
    """Read all of a store, and change nothing."""
    path = real_path(path)
    busy, weights = in_use(path), Weights(path)
    try:
        with closing(Database(path, read_only=True, trusting=True)) as database:
            if damage := tuple(database.damage()) or tuple(nonsense(database)):
                return Condition(path=path, damage=damage, lost={})
            trained = [] if busy else [batch for batch in database.named_rows("batches") if batch["units"]]
            return Condition(
                path=path,
                format=database.format_found,
                n_rows=sum(len(database.named_rows(table)) for table in TABLES),
                n_files=len(trained),
                in_use=busy,
                damage=(),
                lost={
                    batch["name"]: tuple(json.loads(batch["roster"]))
                    for batch in trained
                    if not weights.holds(file_name(batch["name"], batch["units"]), batch["weights_checksum"])
                },
            )
    except DamagedStore as error:
        return Condition(path=path, damage=(error.what,), lost={})


def mend(path: Path) -> Condition:
    """Have students trained again whose weights are lost; returns how the store was."""
    found = check(path)
    if found.damage:
        raise StoreError(f"The store {path} cannot be mended: {found.damage[0]}. {BEGIN_ANEW}")
    with Store(path) as store:
        store.start_over(list(found.lost))
    return found
