"""The examples run as a user would run them."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_bring_your_own_fits_on_a_page_and_keeps_its_students_off_the_cliff(tmp_path):
    script = EXAMPLES / "02_bring_your_own.py"
    assert len(script.read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    falls = {name: int(number) for name, number in re.findall(r"(\w+): (\d+) falls in training", done.stdout)}
    assert falls["taught"] == 0
    assert falls["none"] > 20
