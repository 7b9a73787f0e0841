"""Text of .proto files as a FileDescriptorSet, by a process of `protoc`, Google's compiler."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from eos.errors import SourceError, SpecError

_LONGEST_S: Final = 60.0
_LONGEST_TEXT: Final = 4_000_000
"""Characters of a schema with its imports. The compiler reads them in some seconds, and a topic of a registry keeps
fewer."""
_LONGEST_REASON: Final = 500
_LONGEST_NAME: Final = 200
_NOISE: Final = re.compile(r"WARNING: All log|[IW]\d{4} |.*: warning: ")
"""Lines of protoc's log that are not errors. They have times, and a reason is the same in each process."""
_STOPPED: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals of another process, or of a machine without memory. With another one, the text has ended the compiler."""


def compile_text(text: str, imports: Mapping[str, str]) -> bytes:
    """Return the descriptors of a .proto file and of all files that it imports, by the names of its imports.

    Blocks for some milliseconds. Raises SpecError for a text that does not compile or is too long, and SourceError if
    the compiler cannot run here: that is not the fault of the text.
    """
    if sum(map(len, (text, *imports.values()))) > _LONGEST_TEXT:
        message = f"not a .proto file: it has more than {_LONGEST_TEXT:,} characters with its imports"
        raise SpecError(message, remedy="leave out messages that no record has")
    for each in imports:
        _check_name(each, imports)
    name = "schema.proto"
    while name in imports:
        name = f"_{name}"
    try:
        with TemporaryDirectory(prefix="eos-proto-") as folder:
            for each, content in {**imports, name: text}.items():
                file = Path(folder, each)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8", errors="replace")
            return _run(".", name, Path(folder))  # a reason names no folder: it is the same in each process
    except OSError as error:
        raise _not_running(error.strerror or str(error)) from None


def compile_file(path: Path) -> bytes:
    """Return the descriptors of a .proto file and of its imports, which are relative to its folder."""
    try:
        with TemporaryDirectory(prefix="eos-proto-") as folder:
            return _run(str(path.parent.absolute()), path.name, Path(folder))
    except OSError as error:
        raise _not_running(error.strerror or str(error)) from None


def _run(imports_in: str, name: str, folder: Path) -> bytes:
    """Compile a file of the folder `imports_in`, with an output in `folder`. Raises OSError, too."""
    if find_spec("grpc_tools") is None:
        raise _not_running("grpcio-tools is not installed")
    output = folder / "compiled.descriptors"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={imports_in}", "--include_imports"]
    command += [f"--descriptor_set_out={output}", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        raise _not_running(f"it takes more than {_LONGEST_S:.0f} seconds") from None
    if done.returncode == 0:
        return output.read_bytes()
    lines = [each for each in done.stderr.decode(errors="replace").splitlines() if not _NOISE.match(each)]
    reason = "; ".join(lines)[:_LONGEST_REASON] or f"protoc ends with {done.returncode}"
    if done.returncode < 0 and -done.returncode not in _STOPPED:
        raise SpecError(f"not a .proto file: protoc ends by signal {-done.returncode}", remedy="check it with protoc")
    if not any(f"{name}:" in each for each in lines):
        raise _not_running(reason)
    raise SpecError(f"not a .proto file: {reason}", remedy="check it with protoc")


def _not_running(reason: str) -> SourceError:
    remedy = "pip install 'eos-spark[protobuf]', here and wherever tasks run; see that the temporary folder has room"
    return SourceError(f"the compiler of Protobuf does not run: {reason}", remedy=remedy)


def _check_name(name: str, names: Mapping[str, str]) -> None:
    """Raise SpecError for an import that cannot be a file inside of a folder. A registry names it."""
    parts = PurePosixPath(name).parts
    is_inside = bool(parts) and not name.startswith("/") and ".." not in parts and name.isprintable()
    if not is_inside or len(name.encode()) > _LONGEST_NAME:
        raise SpecError(f"not a .proto file: the import {name!r} is outside of its folder, or too long")
    if any(other.startswith(f"{name}/") for other in names):
        raise SpecError(f"not a .proto file: the import {name!r} is a file and a folder")
