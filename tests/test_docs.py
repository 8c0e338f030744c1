"""What documents tell users to type is what there is: commands with their options, names, and the how-tos' Python."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import typer

import cisr
from cisr.cli.commands import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
HOW_TOS = sorted((ROOT / "docs" / "howto").glob("*.md"))


OVER_LINES = re.MULTILINE | re.DOTALL


def blocks(page, *languages):
    """The code blocks of a page, without those that are taken from a file."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), OVER_LINES)
    return [block for language, block in found if language in languages and "--8<--" not in block]


def commands(page):
    """Every `cisr …` that begins a line of a block or stands in backticks, without what it is followed by."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=OVER_LINES)
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", prose)]
    lines = "\n".join(blocks(page, "sh", "")).replace("\\\n", " ").splitlines()
    for command in (*lines, *spans):
        if found := re.match(r"(?:\w+=\S+ )*cisr (?=[a-z])(.+)", command):
            yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_their_options_are_there(page):
    known = typer.main.get_command(app).commands
    for name, *words in commands(page):
        assert name in known, f"cisr {name}"
        options = {option for parameter in known[name].params for option in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in {*options, "--help", "--debug"}, f"cisr {name} {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_that_are_named_alone_are_some_commands(page):
    of_cisr = {
        o for c in typer.main.get_command(app).commands.values() for parameter in c.params for o in parameter.opts
    }
    spans = re.findall(
        r"`(--[a-z-]+)[^`]*`", re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=OVER_LINES)
    )
    of_benchmarks = set(
        re.findall(r'"(--[a-z-]+)"', "".join(f.read_text(encoding="utf-8") for f in (ROOT / "benchmarks").glob("*.py")))
    )
    for option in spans:
        assert option in of_cisr | of_benchmarks | {"--help", "--debug", "--version"}, option


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_snippets_import_is_there(page):
    for block in blocks(page, "python"):
        for line in re.findall(r"^(?:from cisr\S* import .+|import cisr\S*)$", block, re.MULTILINE):
            exec(line, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_public_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    referred = re.findall(r"\]\[cisr\.(\w+)\]", text)
    lines = re.findall(r"^from cisr import (.+)$", text, re.MULTILINE)
    imported = [name for line in lines for name in line.split(", ")]
    for name in (*referred, *imported):
        assert name in cisr.__all__


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_the_python_of_how_tos_runs(page, in_this_process):
    """Pages speak of a `task`; here it is a small one, whose students hardly learn anything."""
    names = {"task": tiny.task}
    for block in blocks(page, "python"):
        program = compile(block, page.name, "exec")
        if page.stem != "cluster":  # which needs one, and hours
            exec(program, names)


def tables(root, *options):
    """What the script says, with its exit code."""
    command = [sys.executable, str(root / "docs" / "tables"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not done.stderr
    return done.stdout.splitlines(), done.returncode


def test_tables_and_numbers_in_prose_are_those_of_the_json():
    assert tables(ROOT, "--check") == ([""], 0)


def test_pages_that_say_something_else_than_the_json_are_named_and_their_tables_mended(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    readme, learner = tmp_path / "README.md", tmp_path / "docs" / "results" / "learner.md"
    shutil.copy(ROOT / "README.md", readme)
    good = readme.read_text(encoding="utf-8")
    readme.write_text(good.replace("| optimized | 0.9997", "| optimized | 0.9998"), encoding="utf-8")
    said = learner.read_text(encoding="utf-8")
    learner.write_text(said.replace("−38 [−142, +65]", "−38 [−100, +65]"), encoding="utf-8")
    prose = "docs/results/learner.md does not say: The difference of means is −38 [−142, +65]; p ="
    table = "README.md has other tables than the JSON: run python docs/tables"
    assert tables(tmp_path, "--check") == ([table, prose], 1)
    assert tables(tmp_path) == ([prose], 1)
    assert readme.read_text(encoding="utf-8") == good


MEASURED = re.compile(r"\d ± |\d\.\d|\d of \d|\d,\d{3}")


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").glob("results/*.md")), *HOW_TOS],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_tables_of_measurements_are_made_from_json_or_say_why_not(page):
    text = re.sub(r"<!-- table: \w+ -->.*?<!-- /table -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for found in re.finditer(r"((?:^.+\n)*)\n((?:^\|.*\n)+)", text, re.MULTILINE):
        before, rows = found.groups()
        defined = before.startswith("<!-- definitions -->")
        assert defined or not MEASURED.search(rows) or "*Not from JSON" in before, rows
