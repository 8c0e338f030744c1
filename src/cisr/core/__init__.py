"""What the user brings and the words that all share: tasks, interventions, constraints, finite models, seeds, errors.

Imports nothing of cisr but itself; knows neither jax nor gymnasium nor files.
"""
