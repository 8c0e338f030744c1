"""What the site has beyond its pages: the API's pages, and lists as GitHub reads them.

The API has a page for each room with public names, so that no page must follow when a name moves or is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File

PUBLIC = ("cisr", "cisr.auditing", "cisr.teachers", "cisr.testing")
"""Modules whose names users import; a name of several is shown where it is first."""


def on_config(config: Any) -> None:
    """Python-Markdown wants a blank line before a list; the API takes its place in the navigation."""
    config.markdown_extensions.append(GitHubLists())
    first, *others = _sources()
    api = {"API": [{"Overview": first}, *others]}
    config.nav = [api if entry == {"API": "api"} else entry for entry in config.nav]


def on_files(files: Any, config: Any) -> None:
    for source, content in _sources().items():
        files.append(File.generated(config, source, content=content))


def _sources() -> dict[str, str]:
    """The Markdown of the API's pages, by their paths."""
    package = griffe.load("cisr", search_paths=["src"])
    assert isinstance(package, griffe.Module)
    rooms: dict[str, list[tuple[str, griffe.Object]]] = {}
    for path, found in _public(package).items():
        rooms.setdefault(found.canonical_path.split(".")[1], []).append((path, found))
    pages = {f"api/{room}.md": _page(package, room, names) for room, names in sorted(rooms.items())}
    listed = [f"- [{room}]({room}.md): {', '.join(_link(path) for path, _ in rooms[room])}" for room in sorted(rooms)]
    intro = "What users import, by the room that it lives in: `from cisr import …` unless the name says otherwise.\n\n"
    return {"api/index.md": "# API\n\n" + intro + "\n".join(listed) + "\n"} | pages


def _page(package: griffe.Module, room: str, names: list[tuple[str, griffe.Object]]) -> str:
    said = package[room].docstring
    parts = [f"# cisr.{room}\n", said.value.partition("\n>>>")[0] if said and room != "testing" else ""]
    for path, found in sorted(names, key=lambda name: (not name[1].is_class, name[0].lower())):
        options = f"    options:\n      heading: {path}\n      toc_label: {_short(path)}\n"
        anchor = "" if path in found.aliases else f"[](){{#{path}}}\n"
        parts.append(f"\n{anchor}\n::: {found.canonical_path}\n{options}")
    return "\n".join(parts)


def _public(package: griffe.Module) -> dict[str, griffe.Object]:
    """Public names with what they stand for, each once."""
    found: dict[str, griffe.Object] = {}
    for module in PUBLIC:
        inside = package if module == "cisr" else package[module.removeprefix("cisr.")]
        for name in (name for name in map(str, inside.exports or ()) if not name.startswith("_")):
            target = _resolved(package, inside, name)
            if target.canonical_path not in {known.canonical_path for known in found.values()}:
                found[f"{module}.{name}"] = target
    return found


def _resolved(package: griffe.Module, inside: griffe.Module, name: str) -> griffe.Object:
    """A name that is imported only when it is asked for can be found by its class alone."""
    if name in inside.members:
        member = inside.members[name]
        return member.final_target if isinstance(member, griffe.Alias) else member
    (only,) = [m.members[name] for m in _modules(package) if name in m.members and not m.members[name].is_alias]
    return only


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from _modules(inner)


def _short(path: str) -> str:
    return path.rpartition(".")[2]


def _link(path: str) -> str:
    return f"[`{path}`][{path}]"


class GitHubLists(Extension):
    """Lists may follow a paragraph without a blank line."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        md.preprocessors.register(_BlankLines(md), "github_lists", 27)


class _BlankLines(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        fenced = in_list = False
        for line in lines:
            fenced ^= line.lstrip().startswith("```")
            item = re.match(r"([-*]|\d+\.) ", line)
            if item and not fenced and not in_list and out and out[-1].strip():
                out.append("")
            in_list = bool(item) or (in_list and bool(line.strip()))
            out.append(line)
        return out
