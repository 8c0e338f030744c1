"""Gymnasium's `LunarLander-v3` as array code: Box2D's own scheme for this one world.

A hull and two legs on revolute joints with motors and limits, over ten edges of terrain. Every number is an array over
the landers (...), legs stand on an axis before these (2, ...), and nothing but sums, products, roots, sines and choices
happens to them: the same source runs as plain XLA, inside one kernel, and on NumPy.

| module | is about |
|---|---|
| `constants` | Box2D's tolerances, shapes and masses |
| `world` | what a lander's world consists of; packing it into one array |
| `terrain` | heights, and the edges that a body can meet |
| `boxes` | the broad phase: fat boxes, which contacts exist, which is newer |
| `manifolds` | where a polygon touches an edge, and what is carried over from the step before |
| `contacts`, `joints` | their constraints on velocities and positions |
| `solver` | one step of all constraints, and falling asleep |
| `impact` | time of impact, and the sub-steps that follow it |
| `step`, `launch` | a whole step of the world; how one begins, and engines |
| `rows` | both as functions of plain arrays |
| `lanes`, `ptx`, `kernel` | these taken apart into numbers of single landers, as a GPU's instructions, and launched |

`docs/results/lander-fidelity.md` says how near this comes to Box2D, and what is left out.
"""
