"""The entry `format: {type: csv}` of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry
from connectors.api.model import mistaken, wrong
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.decoding import Format


def _checked(ddl: str) -> str:
    from connectors.formats.csv.texts import check  # loads pyarrow
    from connectors.formats.ddl import parse_ddl

    try:
        check(parse_ddl(ddl))
    except SpecError as error:
        raise mistaken(error) from None
    return ddl


def _character(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise wrong(f"{text!r} is not one ASCII character", "one character, such as ';' or \"\\t\"")
    return text


_Character = Annotated[str, AfterValidator(_character)]


class CsvEntry(FormatEntry):
    """`format: {type: csv, schema: …}`: each value is one record of separated fields, in the order of the columns."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = '{type: csv, schema: "id BIGINT NOT NULL, name STRING"}'
    template_columns: ClassVar[str] = "id, name"

    type: Literal["csv"]
    ddl: Annotated[NonEmpty, AfterValidator(_checked)] = Field(alias="schema")
    """Columns and types as Spark SQL writes them, in the order of the fields."""
    delimiter: _Character = ","
    """The character between fields."""
    quote: _Character = '"'
    """The character around a field that has delimiters, quotes or line ends."""
    escape: _Character | None = None
    """The character in front of a quote inside of a quoted field; without it, such a quote is doubled."""
    null_text: str = ""
    """The text of a NULL. In quotes it is a text."""

    @model_validator(mode="after")
    def _check(self) -> CsvEntry:
        marks = [self.delimiter, self.quote, *([self.escape] if self.escape is not None else [])]
        if len(set(marks)) < len(marks):
            raise wrong("delimiter, quote and escape are not different", "three characters", at="delimiter")
        if any(mark in self.null_text for mark in (self.delimiter, self.quote, "\r", "\n")):
            raise wrong("the text of a NULL has a delimiter, a quote or a line end", "such as \\N", at="null_text")
        return self

    @property
    def schema_text(self) -> str:
        return self.ddl

    def build(self) -> Format:
        from connectors.formats.csv.csv_format import CsvFormat
        from connectors.formats.csv.fields import Dialect
        from connectors.formats.ddl import parse_ddl

        return CsvFormat(parse_ddl(self.ddl), Dialect(self.delimiter, self.quote, self.escape), self.null_text)
