"""The spec entry `connector: numbers`. Imports neither pyarrow nor the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from eos.plugin import SplitSourceEntry

if TYPE_CHECKING:
    from eos.plugin import SplitSource


class NumbersEntry(SplitSourceEntry):
    """`connector: numbers`: the numbers from 0 up to a bound."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("eos_numbers.source",)

    connector: Literal["numbers"]
    bound: int = Field(ge=0)
    """The first number that is left out."""

    @property
    def where(self) -> str:
        return f"the numbers below {self.bound}"

    @property
    def columns(self) -> Sequence[str]:
        return ["n"]

    def build(self) -> SplitSource:
        from eos_numbers.source import Numbers  # loads pyarrow

        return Numbers(self.bound)
