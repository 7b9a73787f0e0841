"""Images of rows inside a JSON document: the name of the column at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from connectors.formats.json_values import JsonFormat

_NO_OBJECT: Final = ": expected object, "


def name_column(reason: str, documents: pa.Array, at: int, decoder: JsonFormat, images: Sequence[str]) -> str:
    """Return the reason with the name of the column, where it names only the image of the row.

    `at`: the document that `decoder` refuses. `images`: fields with an object that has the columns.
    """
    image = next((name for name in images if reason.startswith(f"field {name}: ")), None)
    if image is None or _NO_OBJECT in reason or not pa.types.is_struct(decoder.schema.field(image).type):
        return reason
    for column in decoder.schema.field(image).type:
        only = JsonFormat(pa.schema([(image, pa.struct([column]))]))
        if only.decode(documents.slice(at, 1)).bad:
            return reason.replace(f"field {image}", f"field {image}/{column.name}", 1)
    return reason
