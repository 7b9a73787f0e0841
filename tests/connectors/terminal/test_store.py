"""The terminal as a store, by the suite of a token store; and what is printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.spec import Spec, load_spec
from connectors.terminal.entry import PrintEntry
from connectors.terminal.store import TerminalStore, line_of
from eos.errors import SpecError, TargetError
from eos.testing import TokenStoreCompliance

SHOWN = "shown"


class Paper(TerminalStore):
    """Prints on a file that a test reads."""

    def _print(self, text: str, left: int) -> None:
        assert left == 0
        with (self.folder / SHOWN).open("a") as file:
            file.write(text)


class TestTerminalStore(TokenStoreCompliance):
    types = (pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.list_(pa.int64()))  # that JSON has

    def make_store(self, folder: Path, schema: pa.Schema) -> TerminalStore:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schema").write_bytes(schema.serialize().to_pybytes())
        return Paper(folder, 10**9, "stdout")

    def read(self, store: Any) -> pa.Table:
        schema = pa.ipc.read_schema(pa.py_buffer((store.folder / "schema").read_bytes()))
        shown = store.folder / SHOWN
        rows = [json.loads(line) for line in shown.read_text().split("\n")[:-1]] if shown.exists() else []
        return pa.Table.from_pylist(rows, schema)


def batch(count: int) -> pa.RecordBatch:
    return pa.record_batch({"id": range(count)})


def test_the_first_rows_are_printed_and_the_others_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = TerminalStore(tmp_path / "print", 3, "stdout")
    assert store.apply("s", "", "one", iter([batch(2), batch(2000)]))
    shown, said = capsys.readouterr()
    assert shown == '{"id": 0}\n{"id": 1}\n{"id": 0}\n'
    assert said == "… and 1,999 more rows of this checkpoint\n"
    assert not store.apply("s", "", "two", iter([batch(2)]))
    assert capsys.readouterr() == ("", "")
    assert TerminalStore(tmp_path / "print", 3, "stdout").applied("s") == "one"


def test_a_checkpoint_without_rows_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert TerminalStore(tmp_path, 3, "stderr").apply("s", "", "one", iter(()))
    assert capsys.readouterr() == ("", "")


def test_a_line_is_json_and_does_nothing_to_a_terminal() -> None:
    row = {
        "text": "ü\x1b[2J\u202e",
        "bytes": b"\x00\xff",
        "decimal": Decimal("1.10"),
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "none": None,
    }
    assert line_of(row).isprintable()
    assert json.loads(line_of(row).replace("\\x", "\\u00")) == {
        "text": "ü\x1b[2J\u202e",
        "bytes": "0x00ff",
        "decimal": "1.10",
        "at": "2026-01-31 00:00:00+00:00",
        "none": None,
    }


def test_moments_that_python_does_not_have_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    far = pa.array([5 * 10**17], pa.timestamp("us", "UTC"))
    TerminalStore(tmp_path, 1, "stdout").apply("s", "", "one", iter([pa.record_batch({"at": far})]))
    assert "17814" in capsys.readouterr().out


FAR = 5 * 10**17
MOMENT, DAY = pa.timestamp("us", "UTC"), pa.date32()
DEEP = pa.struct([("at", MOMENT), ("days", pa.list_(DAY)), ("map", pa.map_(MOMENT, pa.list_(pa.struct([("d", DAY)]))))])
TWINS = pa.StructArray.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([[FAR]], pa.list_(pa.int64())).cast(pa.list_(MOMENT)), '{"x": ["17814-'),
        (pa.array([2**31 - 1], pa.int32()).cast(DAY), "out of range"),
        (
            pa.array(
                [{"at": FAR, "days": [3_000_000, None], "map": [(FAR, [{"d": 3_000_000}])]}],
                pa.struct(
                    [
                        ("at", pa.int64()),
                        ("days", pa.list_(pa.int32())),
                        ("map", pa.map_(pa.int64(), pa.list_(pa.struct([("d", pa.int32())])))),
                    ]
                ),
            ).cast(DEEP),
            '"days": ["10183-09-21", null], "map": [["17814-',
        ),
        (pa.array([1], pa.timestamp("us", "Nope/Zone")), '{"x": "1"}'),
        (pa.array([b"a\xff"]).view(pa.string()), '{"x": "a'),
        (TWINS, '{"x": {"x": "b"}}'),
        (pa.array([None], DEEP), '{"x": null}'),
    ],
)
def test_no_value_keeps_a_decided_checkpoint_from_being_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: pa.Array, shown: str
) -> None:
    assert TerminalStore(tmp_path, 1, "stdout").apply("s", "", "one", iter([pa.record_batch({"x": column})]))
    assert shown in capsys.readouterr().out


def test_a_terminal_without_unicode_shows_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "shown").open("w", encoding="ascii") as shown:
        monkeypatch.setattr("sys.stdout", shown)
        assert TerminalStore(tmp_path, 1, "stdout").apply("s", "", "one", iter([pa.record_batch({"x": ["ü"]})]))
    assert (tmp_path / "shown").read_text() == '{"x": "\\xfc"}\n'


def test_a_closed_terminal_stops_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "closed").open("w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
    store = TerminalStore(tmp_path, 1, "stdout")
    with pytest.raises(TargetError, match="cannot be printed on stdout"):
        store.apply("s", "", "one", iter([batch(1)]))
    assert store.applied("s") == ""


SPEC = """\
pipeline: p
checkpoint: {location: state%s}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
sinks: [{name: out, from: s, connector: print}, {name: err, from: s, connector: print, stream: stderr, rows: 2}]
"""


def load(folder: Path, more: str = "") -> Spec:
    (folder / "spec.yaml").write_text(SPEC % more)
    return load_spec(folder / "spec.yaml", {})


def test_a_spec_needs_nothing_but_its_name(tmp_path: Path) -> None:
    spec = load(tmp_path)
    sink = spec.sinks[0]
    assert isinstance(sink, PrintEntry)
    assert (sink.where, sink.rows, sink.commit) == ("the terminal (stdout)", 20, "write-ahead-log")
    built: Any = sink.build(spec.context)
    assert built.store == TerminalStore(tmp_path / "state" / "print", 20, "stdout")
    assert "printed once more" in sink.guarantee(spec.context).limits[0]


def test_tasks_do_not_print(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a task has no terminal"):
        load(tmp_path, ", mode: at-least-once")
