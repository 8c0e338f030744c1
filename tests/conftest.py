import os
from pathlib import Path

# Compiled programs are shared between all tests and their subprocesses, and kept apart from the user's own.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parent.parent / ".pytest_cache" / "caches")
