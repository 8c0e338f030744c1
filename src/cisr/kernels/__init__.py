"""Steps of many small environments as one kernel of a GPU, written from the same source as XLA's program.

Needs jax alone. `steps` is what others call; `apart` takes array code apart into single numbers, `functions` and `ptx`
say these as a GPU's instructions.
"""
