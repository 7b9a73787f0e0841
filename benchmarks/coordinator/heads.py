"""A head on the local disk that counts what is asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from twophase.head import Versioned
from twophase.local_head import LocalHead


class CountedHead(LocalHead):
    """The product's own, which counts its calls and the bytes that it is given."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls: Counter[str] = Counter()
        self.written_bytes: Counter[str] = Counter()

    def read(self) -> Versioned | None:
        self.calls["read"] += 1
        return super().read()

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        self.calls["swap"] += 1
        self.written_bytes["head"] += len(value)
        return super().swap(expected, value, needs)

    def put_record(self, name: str, content: bytes) -> None:
        self.calls["put_record"] += 1
        self.written_bytes["splits" if name.startswith("splits-") else "records"] += len(content)
        super().put_record(name, content)

    def delete_record(self, name: str) -> None:
        self.calls["delete_record"] += 1
        super().delete_record(name)
