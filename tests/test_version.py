"""The version has one place, and who cites cisr cites that version."""

import re
import tomllib
from pathlib import Path

import cisr
from cisr.core import version

ROOT = Path(__file__).parent.parent


def test_the_citation_names_the_version_that_is_imported():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited is not None
    assert cited[1] == cisr.__version__ == version.__version__


def test_the_package_is_built_with_the_version_that_is_imported():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "cisr.core.version.__version__"}
