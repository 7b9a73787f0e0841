"""Neighbouring versions read each other's documents: golden files of each stored kind, and a list that code completes.

A version that writes something new fails `test_every_place_that_stores_a_document_is_of_a_kind`; one that raises a
number fails `test_each_number_in_the_code_is_that_of_its_golden_files`. Then the files of `K.today` become `K.before`,
and what the new version writes becomes `K.today`. A file of an older version is never changed.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connectors.sql import table_format
from eos.errors import ConnectorError, HeadFormatError
from spark_jobs.adapters import kafka_format
from tests.stored_kinds import KINDS
from tests.stored_values import dumped_history, written_segment
from tests.twophase.test_codec import GOLDEN
from twophase.codec import NEWEST, check_writable, decode_head
from twophase.values import StartingPoint
from wal.errors import WalError

ROOT: Final = Path(__file__).parents[2]
FILES: Final = GOLDEN / "neighbours"
_NUMBERED: Final = sorted(name for name, kind in KINDS.items() if kind.refusal)


def golden(name: str, version: str) -> bytes:
    return (FILES / f"{name}.{version}").read_bytes()


@pytest.mark.parametrize("name", KINDS)
def test_a_document_of_today_is_read_and_written_to_the_letter(name: str) -> None:
    kind = KINDS[name]
    assert kind.read(golden(name, "today")) == kind.value
    if kind.written is not None:
        assert kind.written() == golden(name, "today")


@pytest.mark.parametrize("name", KINDS)
def test_a_document_of_the_version_before_is_read(name: str) -> None:
    kind = KINDS[name]
    assert kind.read(golden(name, "before")) == (kind.value if kind.before is None else kind.before)


@pytest.mark.parametrize("name", KINDS)
def test_a_document_of_the_next_version_is_read_where_that_says_so(name: str) -> None:
    kind = KINDS[name]
    assert (golden(name, "next") == golden(name, "today")) == (name == "dead-letter")
    assert kind.read(golden(name, "next")) == (kind.value if kind.after is None else kind.after)


@pytest.mark.parametrize("name", _NUMBERED)
def test_a_document_that_would_be_misread_is_refused_by_name(name: str) -> None:
    with pytest.raises((ConnectorError, WalError), match=KINDS[name].refusal) as caught:
        KINDS[name].read(golden(name, "refused"))
    assert caught.value.remedy


def test_each_kind_has_its_golden_files_and_no_other_file_is_there() -> None:
    wanted = {f"{name}.{version}" for name in KINDS for version in ("before", "today", "next")}
    assert {path.name for path in FILES.iterdir()} == wanted | {f"{name}.refused" for name in _NUMBERED}
    for name, kind in KINDS.items():
        if kind.format is None or kind.refusal == "":
            assert kind.why, f"{name} has no number, or none that is refused: say why"


def test_what_a_segment_and_a_history_say_is_what_this_version_writes() -> None:
    """Their bytes are not the same each time; their fields and tables are."""

    def fields(segment: bytes) -> object:
        begin = segment.rindex(b'{"format"')
        footer, _ = json.JSONDecoder().raw_decode(segment[begin:].decode(errors="replace"))
        return {name: value for name, value in footer.items() if name in {"format", "rows", "columns"}}, set(footer)

    assert fields(written_segment()) == fields(golden("segment", "today"))

    def tables(dump: bytes) -> list[str]:
        return sorted(each for each in dump.decode().split(";\n") if each.startswith(("CREATE", "PRAGMA")))

    assert tables(dumped_history()) == tables(golden("history", "today"))
    assert len(tables(golden("history", "today"))) > 10


@pytest.mark.parametrize("name", ["head", "first-offsets"])
def test_what_this_version_would_lose_is_not_written_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Head and first offsets are carried from swap to swap: all others are written anew, as a whole."""
    content = golden(name, "next")
    words = "a newer version keeps 'colour' in .*, and this one would lose it"
    if name == "head":
        with pytest.raises(HeadFormatError, match=words):
            check_writable(decode_head(content))
        return
    FirstOffsets.content, FirstOffsets.swaps = content, 0
    monkeypatch.setattr(kafka_format, "LocalHead", FirstOffsets)
    with pytest.raises(HeadFormatError, match=words):
        kafka_format.begun(Topic(found={"t/1": 0}), "/location")  # type: ignore[arg-type]
    assert FirstOffsets.swaps == 0
    known = kafka_format.begun(Topic(found={}), "/location")  # type: ignore[arg-type]
    assert known.point == StartingPoint({"t/0": 1}, {"t": "id"})


class FirstOffsets:
    """A register with one document."""

    content, swaps = b"", 0

    def __init__(self, folder: Path) -> None:
        self.value = self.content

    def read(self) -> FirstOffsets:
        return self

    def swap(self, expected: object, value: bytes) -> bool:
        type(self).swaps += 1
        return True


class Topic:
    """A source that finds these splits, besides the known ones."""

    def __init__(self, found: dict[str, int]) -> None:
        self._found = found

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        return StartingPoint(self._found, {})

    def reads(self, topic: str) -> bool:
        return topic == "t"


_STORES: Final = {"dumps", "dump", "write_text", "write_bytes", "replace_durably", "new_stream"}
"""Functions that make bytes of a document, or write them, by their names."""

_ELSEWHERE: Final = {
    "wal/private.py:replace_durably": "writes what it is given",
    "twophase/documents.py:LocalDocuments.replace": "writes what it is given",
    "twophase/faults.py:_stop": "a test's own",
    "connectors/row_bisector.py:RowBisector.encode": "rows on their way to a second job of the same try",
    "connectors/api/masking.py:_forms": "forms of a secret, to be masked",
    "connectors/kafka/sink/markers.py:Markers._parsed": "reads one without a number",
    "connectors/sql/table_format.py:_format_of": "in tests/connectors/sql/test_table_formats.py",
    "connectors/sql/table_format.py:check_formats": "in tests/connectors/sql/test_table_formats.py",
    "connectors/row_spool.py:RowSpool.write": "rows on their way to the driver",
    "connectors/testing/behaviours/storing.py:Storing.test_another_process_sees_it": "a test's own",
    "spark_jobs/operations/repair.py:CheckpointBefore.copied": "plans and commits of Spark itself",
    "spark_jobs/query/rebuilt_spark_log.py:_files": "files of Spark itself",
    "spark_jobs/query/source_lists.py:digests_after": "hashed: test_source_lists.py has a digest of each version",
    "spark_jobs/query/rebuilt_spark_log.py:RebuiltSparkLog._write": "files of Spark itself",
    "spark_jobs/query/rebuilt_spark_log.py:RebuiltSparkLog._add_plan": "files of Spark itself",
    "spark_jobs/query/rebuilt_spark_log.py:RebuiltSparkLog.restore_state": "a mark on this machine, without content",
    "spark_jobs/query/kept_state.py:StateStore._fill_from": "files of Spark itself",
    "spark_jobs/cli/kept.py:facts_in": "shown",
    "spark_jobs/cli/output.py:Output.facts": "shown",
    "spark_jobs/cli/quantities.py:position": "shown",
    "spark_jobs/cli/init.py:init": "shown",
    "spark_jobs/cli/init.py:text": "a spec, for people",
    "spark_jobs/cli/from_topic.py:_line": "a spec, for people",
    "connectors/api/table_rows.py:with_table": "a key on its way to the sink",
    "connectors/sql/tables_writer.py:KnownTables.__reduce__": "tables on their way to the tasks",
    "connectors/grouping.py:rows_by_value": "values on their way to the sink",
    "spark_jobs/cli/source_keys.py:_lines": "a line of a new spec",
    "spark_jobs/query/marks.py:Met.new": "schemas on their way to the driver",
    "connectors/formats/avro/derive.py:record_schema": "a schema, which a registry keeps",
    "connectors/formats/avro/derive.py:value_schema": "a schema, which a registry keeps",
    "connectors/formats/json_rows.py:JsonRows.described": "a schema, which a registry keeps",
    "connectors/formats/avro/inlining.py:inlined": "a schema, for people",
    "connectors/formats/debezium/avro_schema.py:event_plan": "a schema of one process",
    "connectors/formats/debezium/avro_schema.py:key_plan": "a schema of one process",
    "connectors/formats/debezium/avro_schema.py:scalar_plan": "a schema of one process",
    "connectors/formats/debezium/avro_schema.py:table_columns": "a schema of one process",
    "connectors/formats/debezium/inference.py:infer_json": "a sample of one process",
    "connectors/formats/protobuf/compiler.py:compile_text": "files for the compiler, which end with the call",
    "connectors/schema_registry/client.py:RegisteredSchema.fingerprint": "hashed, by a method that never changes",
    "connectors/sources/built.py:BuiltSource.witnesses": "a text of the source, which only that source compares",
    "connectors/formats/connect_envelope.py:_parsed": "a key of a cache in memory",
    "connectors/testing/formats.py:FormatCompliance.test_another_process_decodes_the_same": "a test's own",
    "connectors/testing/sources.py:SourceCompliance.test_positions_are_json": "a test's own",
    "connectors/testing/sources.py:SourceCompliance.test_the_records_that_were_read_are_known_again": "a test's own",
    "connectors/testing/sources.py:_in_a_task": "a test's own",
    "connectors/testing/sources.py:content": "a test's own",
    "connectors/terminal/store.py:line_of": "shown",
    "spark_jobs/observe/notifications/notice.py:body": "sent to a webhook",
    "spark_jobs/session/failures.py:carried": "an error on its way to the driver",
    "spark_jobs/session/java.py:logging_options": "settings of a JVM that is started with them",
    "spark_jobs/observe/log_lines.py:JsonLines.format": "the log",
    "spark_jobs/query/pacing/turns.py:_write": "ends with its process",
    "spark_jobs/page/reading.py:effective": "shown",
    "spark_jobs/page/auth.py:_refuse": "shown",
    "spark_jobs/page/masked.py:masking.Masked.render": "shown",
    "spark_jobs/savepoints/plan.py:decoded": "reads one without a number",
    "spark_jobs/operations/spark_rewriting.py:copy": "Spark's own, of Spark's version",
    "spark_jobs/operations/spark_rewriting.py:_with_ids": "Spark's own, of Spark's version",
    "spark_jobs/query/state_files.py:operator_at": "Spark's own, of Spark's version",
    "spark_jobs/operations/trial.py:trial_of": "Spark's own, of Spark's version",
    "spark_jobs/operations/spark_rewriting.py:_put": "writes what it is given",
    "spark_jobs/query/source_offset.py:SourceOffset.from_json": "reads one without a number",
    "spark_jobs/submit/line.py:Submission.prepare": "settings of a process that is started with them",
    "spark_jobs/demo/job.py:_copy": "a spec of the demo, which runs once",
    "spark_jobs/demo/verdict.py:Verdict.json": "a line for people and programs that started the demo",
}
"""Places that store no document which another version reads, and why."""


def places() -> Iterator[str]:
    """Every function of the product that makes or writes bytes of a document, or puts a number of a format into it."""
    for package in ("eos", "wal", "twophase", "connectors", "spark_jobs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            yield from (f"{path.relative_to(ROOT)}:{each}" for each in _storing(tree, ""))


def _storing(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inside = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{name}.{child.name}".strip(".")
        if isinstance(child, ast.Call):
            called = child.func.attr if isinstance(child.func, ast.Attribute) else getattr(child.func, "id", "")
            if called in _STORES:
                yield inside
        if isinstance(child, ast.Dict) and any(
            isinstance(key, ast.Constant) and key.value == "format" for key in child.keys
        ):
            yield inside
        yield from _storing(child, inside)


def test_every_place_that_stores_a_document_is_of_a_kind() -> None:
    """Tables in databases are found by tests/connectors/sql/test_table_formats.py."""
    of_kinds = {site for kind in KINDS.values() for site in kind.sites}
    found = set(places())
    assert found == of_kinds | set(_ELSEWHERE)
    assert not of_kinds & set(_ELSEWHERE)


def test_each_number_in_the_code_is_that_of_its_golden_files() -> None:
    """Also of a module that begins to have one."""
    found = {("connectors/sql/table_format.py", table_format.FORMAT)}
    numbered = {kind.format for kind in KINDS.values() if kind.format is not None} | found
    found |= {("twophase/codec.py", newest) for newest in NEWEST.values()}
    for package in ("eos", "wal", "twophase", "connectors", "spark_jobs"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                is_number = isinstance(node.value, ast.Constant) and isinstance(node.value.value, int)
                if node.target.id.strip("_") in {"FORMAT", "DOCUMENT_FORMAT", "VERSION"} and is_number:
                    assert isinstance(node.value, ast.Constant)
                    found.add((str(path.relative_to(ROOT)), node.value.value))  # type: ignore[arg-type]
    assert found == numbered
