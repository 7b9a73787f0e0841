"""The place of an event in the log of its database, as text that sorts in the order of the log.

Source: Debezium's reference, the field `source` of each connector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.log_position import digits, file_number, joined, padded

_NUMBERS: Final = ("ts_ms", "ts_us", "lsn", "event_serial_no", "pos", "row", "ord")
_TEXTS: Final = ("sequence", "commit_lsn", "change_lsn", "file", "commit_scn", "scn")

SOURCE: Final = pa.struct([*((name, pa.int64()) for name in _NUMBERS), *((name, pa.string()) for name in _TEXTS)])
"""The parts of `source` that are read. Each connector has some of them."""

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
        ("commit_lsn", lambda: [part["commit_lsn"], _or_least(part["change_lsn"]), digits(part["event_serial_no"])]),
        ("file", lambda: [file_number(part["file"]), digits(part["pos"]), digits(part["row"])]),
        ("sequence", lambda: _sequence(part["sequence"])),
        ("lsn", lambda: [digits(part["lsn"]), digits(part["lsn"])]),
        ("commit_scn", lambda: [padded(part["commit_scn"]), padded(part["scn"])]),
        ("scn", lambda: [padded(part["scn"]), padded(part["scn"])]),
        ("ord", lambda: [digits(part["ts_ms"]), digits(part["ord"])]),
    )
    for name, texts in candidates:
        if part[name].null_count < len(source) and found.null_count:
            found = pc.coalesce(found, pc.if_else(part[name].is_valid(), joined(texts()), pa.scalar(None, pa.string())))
    return found


def _or_least(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "")


def _sequence(texts: pa.Array) -> list[pa.Array]:
    found = pc.extract_regex(texts, _SEQUENCE)
    commit, own = (pc.struct_field(found, [name]) for name in ("commit", "own"))
    is_known = found.is_valid()
    return [pc.if_else(is_known, padded(_or_none(each)), pa.scalar(None, pa.string())) for each in (commit, own)]


def _or_none(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
