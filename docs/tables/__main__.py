"""Make the tables of README.md and docs/ from the JSON in docs/results: `python docs/tables`.

`--check` writes nothing. Either way the exit code is 1 where a page says something else than the JSON.
"""

import sys

from everything import differing

if __name__ == "__main__":
    print(*(found := differing(write="--check" not in sys.argv)), sep="\n")
    sys.exit(bool(found))
