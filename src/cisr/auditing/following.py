"""Does play under an intervention go as M_i says?

Which triggers fire, what an override does, where a rescue leads, what a controller does and until when, what is a
failure: each step is held against the model that certificates rest on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cisr.auditing.agreement import Disagreement, PlayedEpisode, number_of, same_reward
from cisr.cmdp.induced import NOWHERE, Induced
from cisr.core.intervention import Rewind
from cisr.core.model import said
from cisr.core.moves import Move


class Course:
    """What can follow in M_i. The moves that it is asked about must be moves of M."""

    def __init__(self, induced: Induced) -> None:
        self._induced = induced
        self._order = np.argsort(induced.model.pair, kind="stable")
        self._pairs = induced.model.pair[self._order]

    def departure(self, episode: PlayedEpisode) -> Disagreement | None:
        """Where an episode under the intervention leaves M_i first."""
        return next(self._departures(episode), None)

    def _departures(self, episode: PlayedEpisode) -> Iterator[Disagreement]:
        induced, model = self._induced, self._induced.task.model
        reset, driven_by = induced.intervention.reset, induced.judged.move.action
        past = [self._number(episode.start)]  # non-trigger states, newest last
        doomed = bool(induced.task.doomed[past[0]])
        for n, (source, done, move, verdicts) in enumerate(episode.steps):
            assert verdicts is not None
            rows = self._moves(past[-1], verdicts.chosen)
            if done != driven_by[rows[0]]:
                yield _other(f"action {verdicts.chosen} becomes", done, driven_by[rows[0]], source)
                return
            k = self._matching(rows, move)
            rescued, fired = bool(verdicts.fired.any()), induced.fired[k]
            if not np.array_equal(fired, verdicts.fired):
                yield _other("the triggers answer", verdicts.fired.tolist(), fired.tolist(), move.state)
                return
            failed, lands, at = bool(induced.failed[k]) or (doomed and n == 0), int(induced.lands[k]), move.state
            for drive in verdicts.drive:
                if lands < model.n_states:
                    yield _other("the drive goes", "on", "no further", at)
                    return
                rows = self._moves(lands, 0)  # the same for every action of the student's
                if drive.action != driven_by[rows[0]]:
                    yield _other("the controller does", drive.action, driven_by[rows[0]], at)
                    return
                k = self._matching(rows, drive)
                failed, lands, at = failed or bool(induced.failed[k]), int(induced.lands[k]), drive.state
            if failed != verdicts.failed:
                yield _other("a failure is", verdicts.failed, failed, at)
                return
            if verdicts.ended:
                if not failed and lands != NOWHERE:
                    yield _other("the episode", "ends", "goes on", at)
                return
            if lands >= model.n_states:
                if n + 1 < len(episode.steps):
                    yield _other("the drive goes", "no further", "on", at)
                return  # time ran out
            if rescued and induced.unmodelled:
                past.append(self._number(verdicts.after))
            elif rescued and isinstance(reset, Rewind):
                del past[max(len(past) - reset.steps, 0) + 1 :]
            elif lands == NOWHERE:
                yield _other("the episode", "goes on", "ends", at)
                return
            else:
                past.append(lands)
            if self._number(verdicts.after) != past[-1]:
                led, leads = said(tuple(verdicts.after.tolist())), said(model.vector(past[-1]))
                yield _other("the student is left in", led, leads, at)
                return

    def _number(self, state: np.ndarray) -> int:
        number = number_of(self._induced.task.model, state)
        return NOWHERE if number is None else number

    def _moves(self, state: int, action: Any) -> np.ndarray:
        pair = state * self._induced.model.n_actions + action
        first, last = np.searchsorted(self._pairs, pair), np.searchsorted(self._pairs, pair, side="right")
        return self._order[first:last]

    def _matching(self, rows: np.ndarray, move: Move) -> int:
        """The one that was played."""
        leads, known = self._induced.base[self._induced.model.target], self._induced.judged.move
        played = self._number(move.state), move.terminated
        rewarded = (k for k in rows.tolist() if same_reward(known.reward[k], move.reward))
        return int(next(k for k in rewarded if (leads[k], known.terminated[k]) == played))


def _other(what: str, played: Any, told: Any, state: np.ndarray) -> Disagreement:
    return Disagreement(f"{what} {played} in play, and {told} in the model", state)
