"""Imports stand at the top of modules. The few inside functions are there for libraries that take long to load."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import cisr
from cisr import export

SOURCE = Path(cisr.__file__).parent
HEAVY = {"gymnasium", "highway_env", "jax", "jinja2", "matplotlib", "mujoco", "onnx", "optuna", "PIL", "pyarrow", "ray"}
HEAVY |= {"scipy", "sklearn", "stable_baselines3", "tensorboard", "torch"}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
IMPORT = ast.Import | ast.ImportFrom


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): ast.parse(path.read_text(), path) for path in SOURCE.rglob("*.py")}


def imported(statements: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in statements:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & set(MODULES)) or {str(node.module)}
    return found


@cache
def brought_in(module: str) -> frozenset[str]:
    """The modules without which this one cannot be loaded: what it imports at its top, and not under an `if`."""
    found, new = set(), {module}
    while new:
        found |= new
        new = {name for one in new & set(MODULES) for name in imported(MODULES[one].body)} - found
    return frozenset(found)


def inside_functions() -> dict[str, ast.AST]:
    return {
        f"{module}:{node.lineno} in {function.name}: {ast.unparse(node)}": node
        for module, tree in MODULES.items()
        for function in ast.walk(tree)
        if isinstance(function, FUNCTION)
        for node in ast.walk(function)
        if isinstance(node, IMPORT)
    }


def is_heavy(node: ast.AST) -> bool:
    return any(name.partition(".")[0] in HEAVY for module in imported([node]) for name in brought_in(module))


def test_fewer_than_twenty_imports_are_inside_functions():
    found = {id(node): where for where, node in inside_functions().items()}
    assert len(found) < 20, "\n".join(["import these at the top of modules that are imported late:", *found.values()])


def test_every_import_inside_a_function_is_for_a_heavy_library():
    assert [where for where, node in inside_functions().items() if not is_heavy(node)] == []


def test_names_that_are_imported_late_are_there_and_others_are_not():
    assert all(getattr(export, name) is not None for name in export.__all__)
    for package in (cisr, export):
        with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'nothing'"):
            _ = package.nothing
