"""`build` of a plugin's entry: an odd result or error is one mistake that names the entry, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from connectors.registry import build_sink, build_source
from connectors.spec import Spec, load_spec
from eos.errors import SpecError

_SPEC = """
pipeline: orders
checkpoint: {location: ./state}
sources:
  - {name: rows, connector: kafka, bootstrap_servers: "a:1", topics: [orders], format: {type: string}}
sinks: [{name: out, from: rows, connector: sqlite, path: ./o.db, table: t, commit: write-ahead-log}]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "spec.yaml").write_text(_SPEC)
    return load_spec(tmp_path / "spec.yaml", {})


def _exit(*_: object) -> NoReturn:
    raise SystemExit(0)


def _fail(*_: object) -> NoReturn:
    raise ModuleNotFoundError("No module named 'client'")


_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "none": (lambda *_: None, "returned a NoneType, not a S\\w+: it lacks "),
    "class": (lambda *_: object(), "returned a object, not a S\\w+: it lacks "),
    "exit": (_exit, "raised SystemExit: 0"),
    "error": (_fail, "raised ModuleNotFoundError: No module named 'client'"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_a_build_that_does_not_build(spec: Spec, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    build, words = _WRONG[case]
    (source,), (sink,) = spec.sources, spec.sinks
    monkeypatch.setattr(type(source), "build", build)
    monkeypatch.setattr(type(sink), "build", build)
    with pytest.raises(SpecError, match=rf"source rows: `build` of connectors\.kafka\.entry\.\w+ {words}"):
        build_source(source)
    with pytest.raises(SpecError, match=rf"sink out: `build` of connectors\.sql\.sqlite\.entry\.\w+ {words}"):
        build_sink(spec, sink)
