"""Programs of LLVM's language as functions of this process, kept on disk once they are compiled.

Needs llvmlite. Object code is for this kind of processor alone; it is kept under a name that says all it depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from cisr.kernels.llvm import NAME

SPEED_LEVEL = 2
CHECKSUM = hashlib.sha256().digest_size

Native = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""Fills results from given arrays."""


def compiled(text: str, cache: Path | None) -> Native:
    """`text` as a function; looked for in a folder of what has been compiled before, if there is one."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    processor, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=SPEED_LEVEL, jit=True
    )
    told = "\n".join([text, processor, features, llvmlite.__version__, str(SPEED_LEVEL)])
    kept = None if cache is None else cache / f"{hashlib.sha256(told.encode()).hexdigest()}.o"
    code = _read(kept)
    if code is None:
        code = _object_code(text, machine)
        _keep(kept, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(NAME)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def call(results: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> None:
        assert engine is not None  # it owns the code
        function(_addresses(results), _addresses(given))

    return call


def _object_code(text: str, machine: Any) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _addresses(arrays: Sequence[np.ndarray]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _read(kept: Path | None) -> bytes | None:
    """What was kept, if all of it is there; its checksum comes first."""
    if kept is None:
        return None
    with suppress(OSError):
        found = kept.read_bytes()
        if found[:CHECKSUM] == _checksum(found[CHECKSUM:]):
            return found[CHECKSUM:]
    return None


def _checksum(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


def _keep(kept: Path | None, code: bytes) -> None:
    """As a whole or not at all; a disk that is full is no reason not to fly."""
    if kept is None:
        return
    aside = kept.with_name(f"{kept.name}.{os.getpid()}")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(_checksum(code) + code)
        os.replace(aside, kept)
    with suppress(OSError):
        aside.unlink(missing_ok=True)
