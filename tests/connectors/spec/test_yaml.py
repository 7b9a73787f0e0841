"""Files that are no specs at all: broken, hostile or strange YAML. Each is a SpecError with a line, and quickly."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from connectors.spec import SpecMistakesError, load_spec
from eos.errors import SpecError
from tests.connectors.spec.entries import kafka_source

_STRUCTURE = [
    "\n",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "#",
    "&a",
    "*a",
    "!!python/object:os.system",
    "'",
    '"',
    "|",
    ">",
    "---",
]
_STRUCTURE += ["${env:OTHER}", "${file:/etc/hostname}", "$${", "../", "~/", "sinks", "%", "\t", "\u2028", "\0"]

BROKEN = {
    "syntax": (b"a: [1\nb: 2\n", 2, "not YAML: expected ',' or ']'"),
    "tab": (b"a:\n\tb: 1\n", 2, "a tab; YAML is indented with spaces"),
    "quote": (b"a: 'x\n", 2, "not YAML"),
    "empty": (b"", 1, "the file is empty"),
    "only a comment": (b"# nothing\n", 1, "the file is empty"),
    "a list": (b"\n- a\n", 2, "a spec is a mapping"),
    "text": (b"hello\n", 1, "a spec is a mapping"),
    "null": (b"null\n", 1, "a spec is a mapping"),
    "two documents": (b"a: 1\n---\nb: 2\n", 2, "a second document begins"),
    "latin-1": (b"a: 1\nb: caf\xe9\n", 2, "not UTF-8: byte 0xe9"),
    "utf-16": ("a: 1\n".encode("utf-16"), 1, "not UTF-8"),
    "NUL": (b"a: 1\nb: \x00\n", 2, "U+0000 is not allowed"),
    "escape": (b"a: \x1b[31m\n", 1, "U+001B is not allowed"),
    "half a character": (b'a: 1\nb: ["x\\ud83d"]\n', 2, "an escape of U+D800 to U+DFFF stands alone"),
    "too large": (b"a: " + b"x" * (1024 * 1024), 1, "larger than 1048576 bytes"),
    "ten megabytes of lines": (b"a: 1\n" * 2_000_000, 1, "larger than 1048576 bytes"),
    "too deep": (b"a: " + b"[" * 5000, 1, "nested deeper than 32 levels"),
    "too deep mappings": (b"{a: " * 5000, 1, "nested deeper than 32 levels"),
    "unknown alias": (b"a: *x\n", 1, "unknown alias '*x'"),
    "an alias inside itself": (b"a: &x [*x]\n", 1, "unknown alias '*x'"),
    "a list as key": (b"? [a]\n: 1\n", 1, "a key must be text"),
    "a number as key": (b"1: x\n", 1, "the key 1 must be text"),
    "a Python object": (b"a: !!python/object/apply:os.system ['true']\n", 1, "the tag tag:yaml.org,2002:python"),
    "a merge key": (b"a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys (<<) are not supported"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, name: str) -> None:
    content, line, said = BROKEN[name]
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecMistakesError) as caught:
        load_spec(path, {})
    assert any(m.line == line and said in m.found for m in caught.value.mistakes), str(caught.value)


def bomb() -> str:
    """Nine levels of nine: 387 million values from ten lines."""
    lines = ['a: &a ["x","x","x","x","x","x","x","x","x"]']
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join(lines)


def character_bomb() -> str:
    """A long text, repeated; the reference makes a new text each time."""
    return 'a: &a "' + "x" * 100_000 + '${env:X}"\nb: [' + ",".join(["*a"] * 5000) + "]\n"


@pytest.mark.parametrize("text", [bomb(), character_bomb()], ids=["values", "characters"])
def test_a_yaml_bomb_is_refused_at_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    started = time.monotonic()
    with pytest.raises(SpecMistakesError, match="with what aliases"):
        load_spec(path, {"X": "y"})
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / name, {})


def test_aliases_within_the_bounds_work(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "pipeline: &name orders\ncheckpoint: {location: .}\n"
        "sources: [{name: *name, connector: kafka, bootstrap_servers: a, topics: [*name], format: {type: raw}}]\n"
        "sinks: [{name: out, from: *name, connector: sqlite, path: x.db, table: *name, commit: write-ahead-log}]\n"
    )
    assert kafka_source(load_spec(path, {})).topics == ["orders"]


def test_a_spec_that_is_written_as_json_is_read_to_the_letter(tmp_path: Path) -> None:
    """JSON writes a character beyond U+FFFF as two escapes."""
    path = tmp_path / "spec.yaml"
    sources = [
        {"name": "s", "connector": "kafka", "bootstrap_servers": "a", "topics": ["t"], "format": {"type": "raw"}}
    ]
    sink = {"connector": "sqlite", "from": "s", "path": "x.db", "table": "t\u00fc😀", "commit": "write-ahead-log"}
    spec = {
        "pipeline": "😀\u00fc",
        "checkpoint": {"location": "."},
        "sources": sources,
        "sinks": [{"name": "out", **sink}],
    }
    path.write_text(json.dumps(spec))
    loaded = load_spec(path, {})
    assert (loaded.pipeline, getattr(loaded.sinks[0], "table", None)) == ("😀ü", "tü😀")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    with pytest.raises(SpecMistakesError) as caught:
        load_spec(path, {})
    assert any(m.path == "a" and m.line == 1 for m in caught.value.mistakes)


_PLAIN = """\
pipeline: "${env:NAME}"
checkpoint: {location: "./${env:NAME}"}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]
"""


@hypothesis.example("~/a")
@hypothesis.example("a\npipeline: b")
@hypothesis.given(st.text(max_size=60) | st.lists(st.sampled_from(_STRUCTURE), max_size=12).map("".join))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reference_brings_text_and_no_structure(tmp_path: Path, value: str) -> None:
    """What a variable holds is one value, to the letter, whatever YAML, or another reference, stands in it."""
    path = tmp_path / "spec.yaml"
    path.write_text(_PLAIN)
    given = {"NAME": value, "OTHER": "resolved"}
    if not 1 <= len(value) <= 200 or not value.isprintable():
        with pytest.raises(SpecMistakesError) as failure:
            load_spec(path, given)
        assert {each.path for each in failure.value.mistakes} <= {"pipeline", "checkpoint.location"}
        return
    spec = load_spec(path, given)
    assert spec.pipeline == value
    assert str(spec.checkpoint.folder) == str(tmp_path / f"./{value}")
    assert [source.name for source in spec.sources] == ["s"]
    assert len(spec.sinks) == 1


@pytest.mark.parametrize("name", ["fifo", "folder"])
def test_a_reference_to_what_is_no_file_does_not_wait(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    path = tmp_path / "spec.yaml"
    path.write_text(_PLAIN.replace("${env:NAME}", f"${{file:{name}}}"))
    with pytest.raises(SpecMistakesError, match=f"{name} is no file"):
        load_spec(path, {})


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("SELECT reflect('java.lang.System', 'getenv') FROM s", "reflect()"),
        ("SELECT java_method ('java.lang.System', 'exit', 0) FROM s", "java_method()"),
        ("SELECT `Try_Reflect`/* x */('a', 'b') FROM s", "try_reflect()"),
        ("SELECT system.builtin.reflect--\n('a', 'b') FROM s", "reflect()"),
        ("SELECT identifier('reflect')('a', 'b') FROM s", "reflect()"),
        ("SELECT value AS reflect, 'reflect(1)' AS a, \"java_method(\" AS b FROM s", ""),
        ("SELECT TRANSFORM(id) USING 'sh -c \"touch x\"' AS (x) FROM s", "TRANSFORM … USING"),
        ('FROM s REDUCE id using--\n/* x */"cat" AS x', "TRANSFORM … USING"),
        ("SELECT transform(array(1), x -> x + 1), 'using ''a' AS b FROM s JOIN s t USING (value) -- using 'c'", ""),
    ],
)
def test_sql_that_runs_code_is_refused(tmp_path: Path, sql: str, refused: str) -> None:
    path = tmp_path / "spec.yaml"
    text = _PLAIN.replace("${env:NAME}", "orders").replace("from: s,", "from: r,")
    path.write_text(f"{text}transforms: [{{name: r, sql: {json.dumps(sql)}}}]\n")
    if refused:
        with pytest.raises(SpecMistakesError, match=re.escape(f"{refused} runs code")):
            load_spec(path, {})
    else:
        load_spec(path, {})


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("ADD JAR '/tmp/x.jar'", "ADD"),
        (" -- a comment\n/* SELECT */ insert OVERWRITE DIRECTORY '/tmp' SELECT 1", "INSERT"),
        ("((CREATE TEMPORARY VIEW v USING text", "CREATE"),
        ("BEGIN SELECT 1; END", "BEGIN"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE"),
        ("SELECT identifier ( 'java_' || 'method')('a', 'b') FROM s", "IDENTIFIER computes a name"),
        ("SELECT * FROM identifier/* x */(concat('s'))", "IDENTIFIER computes a name"),
        ("SELECT identifier('upper')(user) FROM identifier(\"s\") -- identifier(x)", ""),
        ("((SELECT id FROM s)) UNION (VALUES (1))", ""),
        ("/* x */ WITH a AS (SELECT 1) SELECT * FROM s", ""),
        ("FROM s SELECT value", ""),
        ("TABLE s", ""),
    ],
)
def test_sql_that_shows_that_it_is_no_query_is_refused(tmp_path: Path, sql: str, refused: str) -> None:
    path = tmp_path / "spec.yaml"
    text = _PLAIN.replace("${env:NAME}", "orders").replace("from: s,", "from: r,")
    path.write_text(f"{text}transforms: [{{name: r, sql: {json.dumps(sql)}}}]\n")
    if refused:
        told = refused if " " in refused else f"begins with {refused}: it is a command"
        with pytest.raises(SpecMistakesError, match=told):
            load_spec(path, {})
    else:
        load_spec(path, {})
