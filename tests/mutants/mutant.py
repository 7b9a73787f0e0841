"""A mutant of the product, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
ON_SERVICES: Final = "integration_tests/"
"""Tests under this path need Kafka or a database."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong line, and the tests that fail for it."""

    name: str
    """What the code does wrongly, one short sentence: "a commit without an answer is taken for done"."""
    rule: str
    """The rule or history that it breaks ("R7", "H21"), or a section of the docs: "docs/reference/sinks.md, Values"."""
    path: str
    """The module that it changes, from the project's root."""
    before: str
    """Source text of that module. Invariant: it is there exactly once."""
    after: str
    """The text in its place."""
    caught_by: tuple[str, ...]
    """Node ids of pytest. Invariant: at least one of these tests fails with the mutant, and all pass without it."""

    @property
    def needs_services(self) -> bool:
        """Whether a test of it needs Kafka or a database."""
        return any(test.startswith(ON_SERVICES) for test in self.caught_by)

    def applied(self, source: str) -> str:
        """Return the wrong source of the module. Raises ValueError unless `before` is there exactly once."""
        found = source.count(self.before)
        if found != 1:
            message = f"{self.name}: {self.path} has the text {self.before!r} {found} times, not once"
            raise ValueError(message)
        return source.replace(self.before, self.after)

    def line(self, source: str) -> int:
        """Return the number of the first line that the mutant changes, in the source without it."""
        wrong = self.applied(source).splitlines()
        pairs = zip(source.splitlines(), wrong, strict=False)
        return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), len(wrong))
