"""What people look at: tables and figures. Needs neither jax nor scikit-learn."""
