"""What people look at: tables, figures, films, progress, the page. Needs neither jax nor scikit-learn.

May import everything but the command line.
"""
