"""The behaviours of every sink and every commit variant. Derive from `SinkCompliance` and provide `target`:

class TestMySinkTwoPhase(SinkCompliance):
    @pytest.fixture
    def target(self) -> Target: ...
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.testing.behaviours.chance import Chance
from connectors.testing.behaviours.committing import Committing
from connectors.testing.behaviours.counting import Counting
from connectors.testing.behaviours.direct import Direct
from connectors.testing.behaviours.killing import Killing
from connectors.testing.behaviours.merging import Merging
from connectors.testing.behaviours.repairing import Repairing
from connectors.testing.behaviours.repeating import Repeating
from connectors.testing.behaviours.starting import Starting
from connectors.testing.behaviours.taking_over import TakingOver
from connectors.testing.behaviours.writing import Writing
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.target import Target


class SinkCompliance(
    Committing, Counting, Starting, TakingOver, Writing, Repairing, Direct, Chance, Repeating, Killing
):
    """Each test is one behaviour, on a fresh target."""

    @pytest.fixture
    def target(self) -> Target:
        """Provided by the class that lists a sink."""
        raise NotImplementedError

    @pytest.fixture
    def driver(self, target: Target) -> Iterator[SinkDriver]:
        """One life of a pipeline that writes there, begun."""
        made = SinkDriver(target)
        made.start()
        yield made
        made.close()


class UpsertCompliance(SinkCompliance, Merging):
    """Of a sink that merges rows by `n`."""
