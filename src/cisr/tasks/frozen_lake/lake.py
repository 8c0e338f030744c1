"""The lake's geometry: its map, what students see of it, and the tiles where interventions trigger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cisr.errors import ConfigError

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

    @property
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
        height, width = self.tiles.shape
        row, column = np.divmod(np.arange(height * width), width)
        lakes = np.flatnonzero(self.where("H"))
        steps = np.abs(row[:, None] - row[lakes]) + np.abs(column[:, None] - column[lakes])  # (tiles, lakes)
        return np.asarray((steps <= distance).any(axis=1) & self.where("F"))
