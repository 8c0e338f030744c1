"""Is the environment what its model says? Random play of the real one is held against the model.

Support: every start and every move must be one that the model has, and episodes last as long as it says.

Frequencies: a bet against the model. Before each start and each move the whole stake is spread over what can follow,
as often as it followed before in the same place (the model's probabilities p count as one observation); what follows
pays 1/p. If the model is right the stake is a martingale that begins at 1, however play chooses its actions, so it ever
reaches 1/α with probability α at most (Ville). Small differences take more play to show than is made here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cisr.auditing.functions import predicates
from cisr.core.intervention import NONE, Intervention
from cisr.core.model import FiniteModel, said
from cisr.core.moves import Move, stacked
from cisr.core.task import Task

ERROR_LEVEL = 1e-6
"""α: how often a right model is accused of wrong frequencies, at most."""
START = "start"


class Verdicts(NamedTuple):
    """What became of a student's step in M_i."""

    chosen: Any
    """The student's action."""
    failed: bool
    fired: np.ndarray  # (k,) bool: which triggers did
    drive: list[Move]
    """The controller's moves."""
    after: np.ndarray  # (d,) where the environment is then
    ended: bool
    """Whether the step ended the episode, other than by a time limit."""


class PlayedMove(NamedTuple):
    source: np.ndarray  # (d,) where the student stood
    action: Any  # what the environment was given
    move: Move  # of one student: state (d,), reward and terminated as plain values
    verdicts: Verdicts | None = None
    """None in M, where nothing is judged."""


class PlayedEpisode(NamedTuple):
    """An episode as it was played, in M or under an intervention; a rescue may lie between two steps."""

    start: np.ndarray  # (d,)
    steps: list[PlayedMove]
    driven: int
    """Steps of controllers between them, which count for its length."""
    cut_off: bool
    """Whether the environment itself cut it off after the last step."""
    horizon: int
    """After how many steps play itself cuts episodes off."""
    intervention: Intervention = NONE
    danger: str | None = None
    """The danger that ended it, or None."""

    @property
    def actions(self) -> tuple[Any, ...]:
        """The student's, which an override may have replaced."""
        return tuple(step.verdicts.chosen if step.verdicts else step.action for step in self.steps)

    @property
    def moves(self) -> Iterator[tuple[np.ndarray, Move]]:
        """All that the environment did, drives included: from which state, and what."""
        for step in self.steps:
            yield step.source, step.move._replace(action=step.action)
            source = step.move.state
            for move in step.verdicts.drive if step.verdicts else ():
                yield source, move
                source = move.state


class Follows(NamedTuple):
    """What a move leads to."""

    state: int
    reward: float
    terminated: bool


class Disagreement(NamedTuple):
    """Where an environment does not do what its model says."""

    message: str
    state: np.ndarray  # (d,)


def disagreement(
    task: Task, model: FiniteModel, episodes: Sequence[PlayedEpisode], starts: Iterable[np.ndarray] = ()
) -> Disagreement | None:
    """The first thing that the model does not allow, else what happens far too often or too rarely."""
    table: dict[Hashable, dict[Hashable, float]] = defaultdict(lambda: defaultdict(float))
    for s, a, p, *follows in zip(*(getattr(model, name).tolist() for name in _COLUMNS), strict=True):
        table[s, a][Follows(*follows)] += p
    table[START] = {s: float(model.start[s]) for s in np.flatnonzero(model.start).tolist()}
    bet = Bet(table)
    for start in starts:
        if found := _unknown_start(model, start, bet):
            return found
    for episode in episodes:
        for found in _unknown(task, model, episode, bet):
            return found
    return bet.exposed(model)


def _unknown_start(model: FiniteModel, start: np.ndarray, bet: Bet) -> Disagreement | None:
    number = number_of(model, start)
    if number not in bet.table[START]:
        return Disagreement("an episode started here, and none does in the model", start)
    bet.on(START, number)
    return None


def _unknown(task: Task, model: FiniteModel, episode: PlayedEpisode, bet: Bet) -> Iterator[Disagreement]:
    """What the model does not allow in an episode; everything else is bet on."""
    if found := _unknown_start(model, episode.start, bet):
        yield found
        return
    records: list[Follows] = []
    for source, move in episode.moves:
        place = (number_of(model, source), int(move.action))
        follows = _matching(bet.table.get(place, {}), number_of(model, move.state), move)
        if follows is None:
            told = f"{said(tuple(move.state.tolist()))} with reward {move.reward:g}"
            end = " and the episode's end" if move.terminated else ""
            message = f"action {place[1]} led to {told}{end}, which the model does not have"
            yield Disagreement(message, source)
            return
        bet.on(place, follows)
        records.append(follows)
    yield from _judged_otherwise(task, model, episode, records)
    lasted, lasts = len(episode.steps) + episode.driven, model.lasting(episode.horizon)
    if lasted > lasts:
        message = f"an episode went on after {lasts} steps, the model's time limit"
        yield Disagreement(message, episode.steps[-1].source)
    elif episode.cut_off and lasted < lasts:
        message = f"the environment cut an episode off after {lasted} steps: give the model this time_limit"
        yield Disagreement(message, episode.steps[-1].move.state)


def _judged_otherwise(
    task: Task, model: FiniteModel, episode: PlayedEpisode, records: Sequence[Follows]
) -> Iterator[Disagreement]:
    """Dangers, success and triggers must say the same of what was seen and of the model's record of it."""
    if not records:
        return
    seen = stacked([move for _, move in episode.moves])
    numbers, rewards, ends = (np.array(column) for column in zip(*records, strict=True))
    known = Move(model.states[numbers], rewards, ends, seen.action)
    for one, other in zip(predicates(task, seen.state, seen), predicates(task, known.state, known), strict=True):
        differs = np.flatnonzero(np.asarray(one.fn(*one.cases)) != np.asarray(other.fn(*other.cases)))
        if len(differs):
            state = seen.state[differs[0]]
            message = (
                f"{one.what} says one thing of the state and reward that were seen ({seen.state.dtype}) and another of "
                f"the model's ({model.states.dtype}): give the model the same types and rounding"
            )
            yield Disagreement(message, state)
            return


def number_of(model: FiniteModel, state: np.ndarray) -> int | None:
    return model.numbers.get(tuple(state.tolist()))


def _matching(known: Mapping[Hashable, float], number: int | None, move: Move) -> Follows | None:
    """The model's own record of a move; rewards may differ by the rounding of single precision."""
    for follows in known:
        assert isinstance(follows, Follows)
        same_end = (follows.state, follows.terminated) == (number, move.terminated)
        if same_end and same_reward(follows.reward, move.reward):
            return follows
    return None


def same_reward(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


class Bet:
    """The bet against a model: what can follow in each place (`START`, or a state and action), with probabilities."""

    def __init__(self, table: Mapping[Hashable, Mapping[Hashable, float]]) -> None:
        self.table = table
        self.seen: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
        self._won: dict[Hashable, float] = defaultdict(float)  # logarithms of what each place added to the stake

    def on(self, place: Hashable, follows: Hashable) -> None:
        p, seen = self.table[place][follows], self.seen[place]
        self._won[place] += math.log((p + seen[follows]) / (1 + seen.total()) / p)
        seen[follows] += 1

    @property
    def log_stake(self) -> float:
        return sum(self._won.values())

    def exposed(self, model: FiniteModel) -> Disagreement | None:
        """The clearest case, where the stake says that the model is wrong."""
        if self.log_stake < -math.log(ERROR_LEVEL):
            return None
        place = max(self._won, key=lambda place: self._won[place])
        seen, chances = self.seen[place], self.table[place]
        tries = seen.total()
        odd: Any = max(chances, key=lambda follows: abs(seen[follows] / tries - chances[follows]))
        counted = f"{seen[odd]} of {tries}"
        if place == START:
            message = f"{counted} episodes started here, the model says {chances[odd]:.3g} of them"
            return Disagreement(message, model.states[odd])
        assert isinstance(place, tuple)
        led = f"action {place[1]} led to {said(model.vector(odd.state))} {counted} times"
        return Disagreement(f"{led}, the model says {chances[odd]:.3g} of them", model.states[place[0]])


_COLUMNS = ("source", "action", "probability", "target", "reward", "terminated")
