"""Whatever is done to a spec, it loads or is refused with a SpecError: never another exception."""

from __future__ import annotations

import copy
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from tests.searches import examples

SEED: dict[str, Any] = {
    "version": 1,
    "pipeline": "orders",
    "checkpoint": {"location": "./state", "head": None, "interval": "2s", "retained": 10, "min_pause": "0s"},
    "restart": {"strategy": "exponential-delay", "initial_delay": "1s", "multiplier": 2, "jitter": 0.1},
    "spark": {"master": "local[2]", "conf": {"spark.a": 1, "spark.b": True}},
    "sources": [
        {
            "name": "orders",
            "connector": "kafka",
            "bootstrap_servers": "${KAFKA}",
            "topics": ["orders"],
            "format": {"type": "json", "schema": "id BIGINT, user STRING"},
            "properties": {"client.id": "x"},
        }
    ],
    "transforms": [
        {"name": "big", "sql": "SELECT 1", "watermark": {"column": "ts", "delay": "1min"}},
        {"name": "small", "python": "m:f", "from": ["big"], "options": {"a": [1, {"b": None}]}},
    ],
    "sinks": [
        {
            "name": "out",
            "from": "small",
            "connector": "mysql",
            "url": "mysql+pymysql://u:p@h/d",
            "table": "t",
            "commit": "two-phase",
        }
    ],
}
WORDS = st.sampled_from(
    [
        "kafka",
        "sqlite",
        "two-phase",
        "write-ahead-log",
        "none",
        "fixed-delay",
        "json",
        "raw",
        "small",
        "out",
        "<sql>",
        "2s",
        "0s",
        "-1",
        "${KAFKA}",
        "${env:NO}",
        "${",
        "$${",
        "s3://x",
        "file:",
        "m:f",
        "a://b:c@d@e",
        "\0",
        "é",
        "ARRAY<",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | WORDS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container with each of its keys or indexes."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    spec = copy.deepcopy(SEED)
    for _ in range(draw(st.integers(1, 4))):
        everywhere = places(spec)
        if not everywhere:
            break
        holder, key = draw(st.sampled_from(everywhere))
        action = draw(st.sampled_from(["drop", "rename", "retype", "double"]))
        if action == "drop":
            del holder[key]
        elif action == "retype":
            holder[key] = draw(VALUES)
        elif action == "rename" and isinstance(holder, dict):
            holder[draw(st.text(max_size=8) | WORDS | st.sampled_from(sorted(SEED)))] = holder.pop(key)
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
    return spec


def attempt(path: Path) -> None:
    with suppress(SpecError):
        assert isinstance(load_spec(path, {"KAFKA": "h:9092"}), Spec)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "spec.yaml"


@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(spec=mutated())
def test_a_mutated_spec_loads_or_is_refused(path: Path, spec: dict[str, Any]) -> None:
    buffer = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.dump(spec, buffer)
    path.write_text(buffer.getvalue(), encoding="utf-8", errors="surrogatepass")
    attempt(path)


@settings(max_examples=examples(300), deadline=None)
@given(
    content=st.binary(max_size=80)
    | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,?<\n \t\r\0\\~.0", max_size=60).map(str.encode)
)
def test_bytes_that_are_no_spec_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SpecError):
        load_spec(path, {})


@settings(max_examples=examples(150), deadline=None)
@given(where=st.integers(0, 1000), piece=st.text(alphabet="ab:-[]{}&*!|>'\"%@$,?\n \t\\", max_size=4))
def test_a_damaged_file_loads_or_is_refused(path: Path, where: int, piece: str) -> None:
    buffer = io.StringIO()
    YAML(typ="safe", pure=True).dump(SEED, buffer)
    text = buffer.getvalue()
    where %= len(text)
    path.write_text(text[:where] + piece + text[where + 2 :])
    attempt(path)
