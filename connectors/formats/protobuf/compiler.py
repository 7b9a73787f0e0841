"""Text of .proto files as a FileDescriptorSet, by `protoc`, Google's compiler, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from eos.errors import SourceError, SpecError

_LONGEST_S: Final = 60.0
_LONGEST_REASON: Final = 500
_NOISE: Final = re.compile(r"WARNING: All log|[IW]\d{4} |.*: warning: ")
"""Lines of protoc's log that are not errors. They have times, and a reason is the same in each process."""


def compile_text(text: str, imports: Mapping[str, str]) -> bytes:
    """Return the descriptors of a .proto file and of all files that it imports, by the names of its imports.

    Blocks for some milliseconds. Raises SpecError for a text that does not compile, and SourceError if the compiler
    cannot run here.
    """
    with TemporaryDirectory(prefix="eos-proto-") as folder:
        name = _free_name(imports)
        for each, content in {**imports, name: text}.items():
            file = _inside(Path(folder), each)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            except (OSError, ValueError) as error:
                raise SpecError(f"not a .proto file: the import {each!r} cannot be a file: {error}") from None
        return _run(".", name, Path(folder))  # a reason names no folder: it is the same in each process


def compile_file(path: Path) -> bytes:
    """Return the descriptors of a .proto file and of its imports, which are relative to its folder."""
    with TemporaryDirectory(prefix="eos-proto-") as folder:
        return _run(str(path.parent.absolute()), path.name, Path(folder))


def _run(imports_in: str, name: str, folder: Path) -> bytes:
    """Compile a file of the folder `imports_in`, with an output in `folder`."""
    output = folder / "compiled.descriptors"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={imports_in}", "--include_imports"]
    command += [f"--descriptor_set_out={output}", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=False, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"the compiler of Protobuf does not run: {error}"
        raise SourceError(message, remedy="pip install 'eos-spark[protobuf]', here and wherever tasks run") from None
    if done.returncode < 0:
        raise SourceError(f"the compiler of Protobuf was killed by signal {-done.returncode}")
    if done.returncode != 0:
        lines = [each for each in done.stderr.decode(errors="replace").splitlines() if not _NOISE.match(each)]
        reason = "; ".join(lines)[:_LONGEST_REASON] or f"protoc ends with {done.returncode}"
        raise SpecError(f"not a .proto file: {reason}", remedy="check it with protoc")
    return output.read_bytes()


def _free_name(imports: Mapping[str, str]) -> str:
    """Return a name of a file that is not an import."""
    name = "schema.proto"
    while name in imports:
        name = f"_{name}"
    return name


def _inside(folder: Path, name: str) -> Path:
    """Return the path of an import. A registry names it: it never leaves the folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise SpecError(f"not a .proto file: the import {name!r} is outside of its folder")
    return folder.joinpath(*parts)
