"""Positions of changes: the place in the binlog, or the number of the transaction's GTID.

Sources: Maxwell's `RowMap.toJSON` (`position`, `gtid`) and Canal's `FlatMessage` (`gtid`).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.log_position import file_number, joined, padded

_IN_FILE: Final = r"^(?P<file>.*):(?P<place>[0-9]{1,20})$"
_SERVER_GTID: Final = r"^[0-9a-fA-F-]{36}:(?:[0-9]+-)?(?P<number>[0-9]{1,20})$"
_DOMAIN_GTID: Final = r"^[0-9]+-[0-9]+-(?P<number>[0-9]{1,20})$"


def in_file(texts: pa.Array) -> pa.Array:
    """Return the places of texts such as `binlog.000006:800911`; null for another text."""
    found = pc.extract_regex(texts, _IN_FILE)
    parts = [file_number(pc.struct_field(found, ["file"])), padded(pc.struct_field(found, ["place"]))]
    return pc.if_else(found.is_valid(), joined(parts), pa.scalar(None, pa.string()))


def of_gtid(texts: pa.Array) -> pa.Array:
    """Return the number of the transaction; null for a set of several servers' GTIDs, which has no order."""
    numbers = [pc.struct_field(pc.extract_regex(texts, each), ["number"]) for each in (_SERVER_GTID, _DOMAIN_GTID)]
    number = pc.coalesce(*numbers)
    return pc.if_else(number.is_valid(), padded(number), pa.scalar(None, pa.string()))
