"""How many records a checkpoint takes: what the spec says, or as many as take about as long as they should. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

FIRST: Final = 4_000
"""Records of the first checkpoint under a backlog, of which nothing is known: few enough for a slow sink."""

_LEAST, _MOST = 100, 2**31 - 1
_SHRINK, _GROW = 0.25, 2.0  # by how much the number may change from one checkpoint to the next
_CLOSE: Final = 0.05  # a change by less is none
_FULL: Final = 0.8  # of what it may take; a smaller checkpoint that is quick has taken all there was
_PROBE: Final = 4  # by so much a probe is smaller than the others
_PROBE_EVERY: Final = 50  # checkpoints


class Admission(Protocol):
    """Asked before each checkpoint is planned, told after each one."""

    @property
    def max_records(self) -> int | None:
        """That the next one takes; None: all there are."""

    def observe(self, records: int, duration_s: float) -> None:
        """A checkpoint has ended well: so much it took, from its plan to its end."""


@dataclass(slots=True)
class FixedAdmission:
    """`max_records_per_checkpoint: 500000`, or none."""

    max_records: int | None

    def observe(self, records: int, duration_s: float) -> None:
        """See Admission."""


@dataclass(slots=True)
class AdaptiveAdmission:
    """`max_records_per_checkpoint: auto`: a checkpoint under backlog takes about `target_s`.

    The number goes half the way that is missing, in the scale of its logarithm. More would overshoot where sinks commit
    behind (`max_concurrent`), since a duration is then that of the checkpoint before; this comes to rest in both cases,
    and one checkpoint that was slow by chance is made up for in a few.

    What a checkpoint takes however small it is bounds what smaller ones can help: where that is above half of the
    target, the number is that at which half of the time goes into records. A small checkpoint now and then, a probe,
    tells how long that is; none does where sinks commit behind.
    """

    target_s: float
    probes: bool = True
    records: int = FIRST  # of a checkpoint that is no probe
    _small: tuple[int, float] | None = None  # the newest checkpoint that was much smaller: records, seconds
    _since: int = 0  # full checkpoints

    @property
    def max_records(self) -> int:
        """See Admission."""
        return max(self.records // _PROBE, 1) if self._is_probe_due else self.records

    @property
    def _is_probe_due(self) -> bool:
        small = self._small[0] if self._small is not None else 0
        is_known = 2 * small <= self.records <= 2 * _PROBE * small
        return self.probes and self._since >= (_PROBE_EVERY if is_known else 1)

    def observe(self, records: int, duration_s: float) -> None:
        """See Admission."""
        if records <= 0 or duration_s <= 0:
            return  # time has passed in the query, and nothing came
        if self._small is not None and duration_s < self._small[1]:
            self._small = None  # it took longer, and was smaller: the sink has become a faster one since
        was_probe = self._is_probe_due
        if 2 * records <= self.records:
            self._small, self._since = (records, duration_s), 0
        else:
            self._since += 1
        if was_probe:
            return
        aim_s = max(self.target_s, 2 * self._overhead_s(records, duration_s))
        if records < _FULL * self.records and duration_s <= aim_s:
            return
        factor = min(max(math.sqrt(aim_s / duration_s), _SHRINK), _GROW)
        if abs(factor - 1) > _CLOSE:
            self.records = min(max(round(records * factor), _LEAST), _MOST)

    def _overhead_s(self, records: int, duration_s: float) -> float:
        """What a checkpoint without records would take: by the line through this one and the small one."""
        if not self.probes or self._small is None or 2 * self._small[0] > records:
            return 0.0
        slope = (duration_s - self._small[1]) / (records - self._small[0])
        return max(self._small[1] - slope * self._small[0], 0.0)
