"""Topics of each format, filled once, with a registry where one is needed; and each run's own database and folder."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from benchmarks.bench.comparison import cold
from benchmarks.bench.comparison.arena import own_topic, working
from benchmarks.bench.comparison.expected import Expected
from benchmarks.bench.comparison.meter import Servers
from benchmarks.bench.comparison.plan import Step
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.formats.forms import FORMS, fill
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry


@dataclass(slots=True)
class FormatsArena(AbstractContextManager["FormatsArena"]):
    """Use as a context manager."""

    services: Services
    _servers: Servers = field(init=False)
    _registry: SchemaRegistry | None = None
    _filled: dict[tuple[str, int], tuple[str, Expected]] = field(default_factory=dict)  # read by every run
    _at_end: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._servers = Servers.of(self.services)
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    def measure(self, step: Step) -> Measured:
        """Measure one run, from the start of its process. Raises RuntimeError or ServiceError."""
        form = FORMS[step.format]
        registry = self._registry_url() if form.has_registry else ""
        if (form.name, step.rows) not in self._filled:
            name = self._at_end.enter_context(own_topic(self.services))
            expected = fill(form, step.rows, self.services.kafka_bootstrap, name, registry)
            self._filled[form.name, step.rows] = name, expected
        name, expected = self._filled[form.name, step.rows]
        with working(self.services, name, step.rows, live=False, registry=registry) as work:
            return cold.measure(step.system, work, self._servers, expected)

    def _registry_url(self) -> str:
        if self._registry is None:
            folder = self._at_end.enter_context(tempfile.TemporaryDirectory(prefix="eos-bench-"))
            registry = SchemaRegistry(Path(folder), self.services.kafka_bootstrap)
            self._registry = self._at_end.enter_context(registry)
        return self._registry.url
