"""The one place for the version."""

__version__ = "0.2.0"
