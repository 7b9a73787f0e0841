"""Topics of each format, filled once, with a registry where one is needed; and each run's own database and folder."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench.comparison import cold
from benchmarks.bench.comparison.arena import Measuring, own_topic, working
from benchmarks.bench.comparison.expected import Expected
from benchmarks.bench.comparison.plan import Step
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.formats.forms import FORMS, Form, fill
from integration_tests.services.registry_native import SchemaRegistry


@dataclass
class FormatsArena(Measuring):
    """Each call of `measure` is one run."""

    _registry: SchemaRegistry | None = None
    _filled: dict[tuple[str, int], tuple[str, Expected]] = field(default_factory=dict)  # read by every run

    def fill(self, step: Step) -> tuple[str, Expected]:
        """Return the topic of a run, and what it becomes. Fills it the first time, which takes half a minute a million.

        Raises ServiceError if there is no registry.
        """
        form, key = FORMS[step.format], (step.format, step.rows)
        if key not in self._filled:
            registry = self._registry_url(form)
            name = self._at_end.enter_context(own_topic(self.services))
            self._filled[key] = name, fill(form, step.rows, self.services.kafka_bootstrap, name, registry)
        return self._filled[key]

    def measure(self, step: Step) -> Measured:
        """Measure one run, from the start of its process. Raises RuntimeError or ServiceError."""
        name, expected = self.fill(step)
        registry = self._registry_url(FORMS[step.format])
        with working(self.services, name, step.rows, live=False, registry=registry) as work:
            return cold.measure(step.system, work, self._servers, expected)

    def _registry_url(self, form: Form) -> str:
        if not form.has_registry:
            return ""
        if self._registry is None:
            folder = self._at_end.enter_context(tempfile.TemporaryDirectory(prefix="eos-bench-"))
            registry = SchemaRegistry(Path(folder), self.services.kafka_bootstrap)
            self._registry = self._at_end.enter_context(registry)
        return self._registry.url
