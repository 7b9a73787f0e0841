"""Documents as Maxwell and Canal write them, and their decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connectors.api.decoding import ROW, Decoded
from connectors.formats.binlog_json.canal_format import CanalFormat
from connectors.formats.binlog_json.images import TableRows
from connectors.formats.binlog_json.maxwell_format import MaxwellFormat
from connectors.formats.ddl import parse_ddl

Row = Mapping[str, Any]
TABLE: Final = ("shop", "orders")


def maxwell_format(ddl: str, *key: str) -> MaxwellFormat:
    return MaxwellFormat(TableRows(parse_ddl(ddl), key or ("id",)), TABLE)


def canal_format(ddl: str, *key: str, **options: Any) -> CanalFormat:
    return CanalFormat(TableRows(parse_ddl(ddl), key or ("id",)), TABLE, **options)


def packed(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def maxwell(kind: str, data: Any = None, old: Any = None, **more: Any) -> bytes:
    """A document of Maxwell's `RowMap.toJSON`. An argument `None` leaves its field out."""
    document = {"database": "shop", "table": "orders", "type": kind, "ts": 1_700_000_000, "xid": 23, "commit": True}
    document |= {"position": "binlog.000006:800911", "server_id": 1, "data": data, "old": old, **more}
    return packed({name: value for name, value in document.items() if value is not None})


def canal(kind: str, data: Sequence[Row] | None, old: Sequence[Row] | None = None, **more: Any) -> bytes:
    """A flat message of Canal's."""
    document: dict[str, Any] = {"database": "shop", "es": 1_700_000_000_000, "id": 5, "isDdl": False, "mysqlType": {}}
    document |= {
        "data": data,
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {},
        "table": "orders",
        "ts": 1_700_000_000_123,
    }
    return packed({**document, "type": kind, **more})


def decode(decoder: MaxwellFormat | CanalFormat, *values: bytes | None) -> Decoded:
    """Decode records. Each is in exactly one part of the outcome, and its rows are numbered."""
    decoded = decoder.decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema.equals(decoder.schema)
    assert decoded.records is not None
    records = decoded.records.to_pylist()
    assert records == sorted(records)
    others = [*(each.index for each in decoded.bad), *decoded.omitted]
    assert sorted([*set(records), *others]) == list(range(len(values)))
    numbers = decoded.rows.column(ROW).to_pylist()
    assert numbers == [sum(records[at] == records[row] for at in range(row)) for row in range(len(records))]
    return decoded


def rows(decoder: MaxwellFormat | CanalFormat, *values: bytes | None) -> list[dict[str, Any]]:
    """The rows of records of which none is bad."""
    decoded = decode(decoder, *values)
    assert decoded.bad == ()
    return list(decoded.rows.to_pylist())


def changes(decoder: MaxwellFormat | CanalFormat, *values: bytes | None) -> list[tuple[Any, ...]]:
    """The rows as operation and the columns of the table."""
    names = decoder.rows.row.names
    return [(row["_op"], *(row[name] for name in names)) for row in rows(decoder, *values)]


def reasons(decoder: MaxwellFormat | CanalFormat, *values: bytes | None) -> list[str]:
    """Why records are bad; no record has a row."""
    decoded = decode(decoder, *values)
    assert decoded.rows.num_rows == 0
    return [each.reason for each in decoded.bad]
