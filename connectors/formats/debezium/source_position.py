"""The place of an event in the log of its database, as text that sorts in the order of the log.

Source: Debezium's reference, the field `source` of each connector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.dead_letters import FIRST_US, LAST_US
from connectors.formats.debezium.casting import flags
from connectors.formats.spans import Flags

_NUMBERS: Final = ("ts_ms", "ts_us", "lsn", "event_serial_no", "pos", "row", "ord")
_TEXTS: Final = ("sequence", "commit_lsn", "change_lsn", "file", "commit_scn", "scn")

SOURCE: Final = pa.struct([*((name, pa.int64()) for name in _NUMBERS), *((name, pa.string()) for name in _TEXTS)])
"""The parts of `source` that are read. Each connector has some of them."""

_WIDE: Final = 20
"""Digits of the largest number of 64 bits."""
_SEQUENCE: Final = r'^\[(?:null|"(?P<commit>[0-9]{1,20})"), ?(?:null|"(?P<own>[0-9]{1,20})")\]$'


def positions(source: pa.StructArray) -> pa.Array:
    """Return the positions, null where `source` has no known one.

    PostgreSQL: the LSN of the last commit before the event, and the event's own. SQL Server and Db2: commit LSN, change
    LSN, number in the change. MySQL and MariaDB: number of the binlog file, place in it, row. Oracle: commit SCN, SCN.
    MongoDB: time of the oplog entry, order in it.
    """
    part = dict(zip((field.name for field in source.type), source.flatten(), strict=True))
    found = pa.nulls(len(source), pa.string())
    candidates: Sequence[tuple[str, Callable[[], list[pa.Array]]]] = (
        ("commit_lsn", lambda: [part["commit_lsn"], _or_least(part["change_lsn"]), _digits(part["event_serial_no"])]),
        ("file", lambda: [_file_number(part["file"]), _digits(part["pos"]), _digits(part["row"])]),
        ("sequence", lambda: _sequence(part["sequence"])),
        ("lsn", lambda: [_digits(part["lsn"]), _digits(part["lsn"])]),
        ("commit_scn", lambda: [_padded(part["commit_scn"]), _padded(part["scn"])]),
        ("scn", lambda: [_padded(part["scn"]), _padded(part["scn"])]),
        ("ord", lambda: [_digits(part["ts_ms"]), _digits(part["ord"])]),
    )
    for name, texts in candidates:
        if part[name].null_count < len(source) and found.null_count:
            found = pc.coalesce(
                found, pc.if_else(part[name].is_valid(), _joined(texts()), pa.scalar(None, pa.string()))
            )
    return found


def times(source: pa.StructArray) -> tuple[pa.Array, Flags]:
    """Return when each change happened, as the database has noted it, and where no column holds the time."""
    millis, micros = pc.struct_field(source, ["ts_ms"]), pc.struct_field(source, ["ts_us"])
    wrong = pc.or_(pc.less(millis, FIRST_US // 1000 + 1), pc.greater(millis, LAST_US // 1000))
    wrong = pc.or_kleene(wrong, pc.or_(pc.less(micros, FIRST_US), pc.greater(micros, LAST_US)))
    wrong = pc.fill_null(wrong, False)
    if wrong.true_count:
        nothing = pa.scalar(None, pa.int64())
        millis, micros = pc.if_else(wrong, nothing, millis), pc.if_else(wrong, nothing, micros)
    return pc.coalesce(micros, pc.multiply(millis, 1000)).view(pa.timestamp("us", "UTC")), flags(wrong)


def _joined(texts: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*texts, ":")


def _digits(numbers: pa.Array) -> pa.Array:
    return _padded(numbers.cast(pa.string()))


def _padded(texts: pa.Array) -> pa.Array:
    """Return numbers of one width; 0 for null: MySQL's `row`, for example, is missing in a snapshot."""
    return pc.utf8_lpad(pc.fill_null(texts, "0"), _WIDE, "0")


def _or_least(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "")


def _file_number(files: pa.Array) -> pa.Array:
    """Return the number at the end of each name: it has more digits from the millionth file on."""
    coded = files.dictionary_encode()
    numbers = pc.replace_substring_regex(coded.dictionary, r"^.*?([0-9]*)$", r"\1")
    return _padded(numbers.take(coded.indices))


def _sequence(texts: pa.Array) -> list[pa.Array]:
    found = pc.extract_regex(texts, _SEQUENCE)
    commit, own = (pc.struct_field(found, [name]) for name in ("commit", "own"))
    is_known = found.is_valid()
    return [pc.if_else(is_known, _padded(_or_none(each)), pa.scalar(None, pa.string())) for each in (commit, own)]


def _or_none(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
