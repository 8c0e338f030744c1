"""What people look at: tables, figures, the page. Needs neither jax nor scikit-learn."""
