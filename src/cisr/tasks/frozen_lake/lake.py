"""The lake: its map, how students move on it and what they see of it, and the tiles where interventions trigger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cisr.core.errors import ConfigError
from cisr.core.model import FiniteModel

PAPER_MAP = (
    "SFFFFFFFFF",
    "FFFFFFFFFF",
    "HFFFFFFFFF",
    "FFHFFFFFFF",
    "HFFFFHFFFF",
    "FFHFFFHFFF",
    "HFFFFHFFFF",
    "FFHFFFFFFF",
    "HFFFFFFFFF",
    "FFFGFFFFFF",
)

SLIP = 0.2
"""Probability of moving to one side of the intended direction instead, half to each side."""
WAYS = ((1 - (1 - SLIP)) / 2, 1 - SLIP, (1 - (1 - SLIP)) / 2)
"""Probabilities of a slip to one side, of the intended move, of a slip to the other side; rounded as Gymnasium's."""
DIRECTIONS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Gymnasium's actions as (row, column): left, down, right, up."""
GOAL_REWARD, LAKE_REWARD, MOVE_REWARD = 6.0, 0.0, -0.01
HORIZON = 201

TILE_SHADES = {"F": 0.0, "G": 0.2, "H": 0.4, "S": 0.6}
AGENT_SHADE = 1.0


@dataclass(frozen=True)
class Lake:
    """A map, row by row from the top: S start, F frozen, H lake (danger), G goal. A state is [tile number]."""

    rows: tuple[str, ...]

    def __post_init__(self) -> None:
        letters = "".join(self.rows)
        if len({len(row) for row in self.rows}) != 1 or not set(letters) <= set(TILE_SHADES):
            raise ConfigError(f"A lake has the rows {self.rows}: give rows of equal length made of S, F, H and G.")
        if letters.count("S") != 1 or "G" not in letters:
            raise ConfigError(
                f"A lake has {letters.count('S')} starts, {letters.count('G')} goals: give one S, some G."
            )

    @property
    def tiles(self) -> np.ndarray:
        """Letters, (height, width)."""
        return np.array([list(row) for row in self.rows])

    @cached_property
    def images(self) -> np.ndarray:
        """What a student on each tile sees, (tiles, height, width, 1) float32."""
        tiles = self.tiles
        shades = np.vectorize(TILE_SHADES.__getitem__)(tiles).astype(np.float32)
        images = np.repeat(shades[None], tiles.size, axis=0)
        images.reshape(tiles.size, tiles.size)[np.arange(tiles.size), np.arange(tiles.size)] = AGENT_SHADE
        return images[..., None]

    def where(self, letter: str) -> np.ndarray:
        """Which tiles carry the letter, (tiles,) bool."""
        return np.asarray(self.tiles.ravel() == letter)

    def near_lakes(self, distance: int) -> np.ndarray:
        """F tiles within a Manhattan distance of a lake, (tiles,) bool. Start and goal never count."""
        near = self.tiles == "H"  # (height, width), spread by one tile at a time
        for _ in range(distance):
            around = np.pad(near, 1)
            near = near | around[2:, 1:-1] | around[:-2, 1:-1] | around[1:-1, 2:] | around[1:-1, :-2]
        return np.asarray(near.ravel() & self.where("F"))

    @cached_property
    def safe_actions(self) -> np.ndarray:
        """Which actions never lead into a lake, however the ice lets one slip, and leave such an action to take from
        wherever they lead, (tiles, actions) bool."""
        dry = ~self.where("H")
        while True:
            safe = dry[self.destinations].all(axis=-1) & dry[:, None]
            left = safe.any(axis=-1)
            if (left == dry).all():
                return np.asarray(safe)
            dry = left

    @property
    def destinations(self) -> np.ndarray:
        """Where each action leads from each tile, in each of the three `WAYS`, (tiles, actions, 3)."""
        height, width = self.tiles.shape
        row, column = np.divmod(np.arange(height * width), width)
        moved = np.stack(
            [np.clip(row + dr, 0, height - 1) * width + np.clip(column + dc, 0, width - 1) for dr, dc in DIRECTIONS],
            axis=1,
        )  # (tiles, directions)
        return np.asarray(moved[:, [[(a - 1) % 4, a, (a + 1) % 4] for a in range(4)]])

    @property
    def rewards(self) -> np.ndarray:
        """For moving onto a tile, (tiles,)."""
        return np.select([self.where("G"), self.where("H")], [GOAL_REWARD, LAKE_REWARD], MOVE_REWARD)

    @property
    def terminal(self) -> np.ndarray:
        """Where episodes end, (tiles,) bool."""
        return np.asarray(self.where("G") | self.where("H"))

    @property
    def model(self) -> FiniteModel:
        """Every move, as in the table of Gymnasium's `FrozenLake-v1`: tiles where episodes end lead to themselves."""
        destinations, terminal = self.destinations, self.terminal
        tile, action, way = (np.asarray(index) for index in np.indices(destinations.shape))
        stays = terminal[tile]
        real = ~stays | (way == 0)  # one move for each action on a tile where episodes end
        return FiniteModel(
            states=np.arange(len(terminal))[:, None],
            n_actions=len(DIRECTIONS),
            source=tile[real],
            action=action[real],
            probability=np.where(stays, 1.0, np.array(WAYS)[way])[real],
            target=np.where(stays, tile, destinations)[real],
            reward=np.where(stays, 0.0, self.rewards[destinations])[real],
            terminated=(stays | terminal[destinations])[real],
            start=self.where("S").astype(float),
        )
