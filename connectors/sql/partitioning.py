"""How rows are spread over writers, so that two tasks of one checkpoint never hold the same key (R5, H15)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How rows are spread over writers."""

    columns: tuple[str, ...] | None = None  # as Sink.partition_by
    reason: str = ""  # why there is but one writer

    @property
    def one_writer(self) -> bool:
        """Nothing else keeps one key out of two tasks."""
        return self.columns == ()

    def __str__(self) -> str:
        if self.one_writer:
            return f"one writer: {self.reason}"
        return f"several; no two of them hold rows equal in {', '.join(self.columns)}" if self.columns else "several"
