"""Ready-made ways to remember environments and put them back, for `Task.save` and `Task.restore`:

from cisr.saving import mujoco

Task(..., save=mujoco.save, restore=mujoco.restore)

A task without them, and without a `place`, gets the one that `saving_for` finds for its environment.
"""

from cisr.cmdp.saving import Saving, copies, lander, mujoco, saving_for, toy_text

__all__ = ["Saving", "copies", "lander", "mujoco", "saving_for", "toy_text"]
