"""A batch whose job Spark has run already: what its tasks have acknowledged, or why it has failed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eos.errors import PrepareError
from spark_jobs.batch.acks import by_sink
from spark_jobs.batch.dead_letters import Ranges
from spark_jobs.observe.history.model import Acknowledgement
from twophase.codec import decode_committable
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed


@dataclass(slots=True)
class DoneBatch:
    """Implements twophase.effects.Batch, without state."""

    checkpoint_id: int
    outcome: Sequence[bytes] | PrepareError  # encoded committables
    sinks: Sequence[str]  # their names
    skipped: Mapping[str, int] = field(default_factory=dict)  # nothing is known of the sources
    acknowledgements: tuple[Acknowledgement, ...] = ()  # its tasks bring nothing but what they have prepared
    ranges: Ranges = field(default_factory=dict)  # the sources are Spark's own
    ends_held: Sequence[int] | None = None  # Spark's writers are told nothing of the batch that they end

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """See twophase.effects.Batch. What tasks have done by now is done: they have prepared."""
        assert not direct
        if isinstance(self.outcome, PrepareError):
            return Failed(self.outcome)
        return Acknowledged(by_sink(self.sinks, map(decode_committable, self.outcome)), time.time())

    def discard(self, digest_methods: Sequence[int]) -> None:
        """Nothing has a state to bring along."""
