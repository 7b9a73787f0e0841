"""How many records a checkpoint takes: what the spec says, or as many as take about as long as they should.

And how long its tasks may take, before it is replanned with fewer records. Pure.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Final, Protocol

FIRST: Final = 4_000
"""Records of the first checkpoint under a backlog, of which nothing is known: few enough for a slow sink."""

_LEAST, _MOST = 100, 2**31 - 1
_SHRINK, _GROW = 0.25, 2.0  # by how much the number may change from one checkpoint to the next
_CLOSE: Final = 0.05  # a change by less is none
_FULL: Final = 0.8  # of what it may take; a smaller checkpoint that is quick has taken all there was
_PROBE: Final = 16
"""By so much a probe is smaller than the others.

The time of its records counts as overhead if it is slow by chance. A larger probe has more of that, and the error grows
with the number of records. If noise makes durations up to `n` times longer or shorter, a checkpoint takes at most
`n * m * target_s`, or `n * o * (1 + x)` if that is more. `o` is the overhead, probes are `q` times smaller, and

    m = n / (1 - _CLOSE)**2
    x = (2 * m * (n * q - 1 / n) / (q - 1) - 1) / (1 - 2 * m * (n - 1 / n) / (q - 1))

because above `o * x` seconds of records the number falls, even if all probes are slow and all others are quick. For
n = 1.25 and an overhead of 0.45 times the target, that is 2.1 times the target with q = 16, and 3.3 with q = 4.
"""
_PROBE_EVERY: Final = 50  # checkpoints
_PROBE_OFTEN: Final = 8  # where little is known, or more hangs on it
_OTHER_TIMES: Final = 2.0  # so many times too long: what probes have told was of other times
_PROBES: Final = 3  # that are remembered: of a busy machine one alone tells little
_OVERRUN: Final = 2.0
"""By this factor the tasks of a checkpoint may take longer than the checkpoint before it, or than it should.

A sink may become slower while they write. After each overrun in a row the number of records falls to a quarter, and the
limit `L` doubles. So if all records of the first plan would take `r` seconds at the new rate, the attempts take

    L, 2 * L, 4 * L, ... until 2**i * L >= r / 4**i

Each overrun took less than `L * (r / L)**(1/3)` seconds, and all together less than twice as long. Where a sink stands
still for `s` seconds instead, all together take less than `2 * s + L`.
"""
_MOST_OVERRUNS: Final = 30  # that are counted: the limit is centuries by then, and no float is exceeded
_LEAST_LIMIT_S: Final = 8.0  # a quick checkpoint may wait that long for a busy machine, and a restart costs a second


class Admission(Protocol):
    """Asked before each checkpoint is planned and before its tasks run, told after each one."""

    @property
    def max_records(self) -> int | None:
        """That the next one takes; None: all there are."""

    @property
    def limit_s(self) -> float:
        """How long the tasks of the next one may take."""

    def overrun(self) -> bool:
        """Take fewer records: the tasks took longer than they may. Returns whether the number can change."""

    def observe(self, records: int, duration_s: float) -> None:
        """A checkpoint has ended well: so much it took, from its plan to its end."""


@dataclass(slots=True)
class FixedAdmission:
    """`max_records_per_checkpoint: 500000`, or none."""

    max_records: int | None
    limit_s: float = math.inf

    def overrun(self) -> bool:
        """Change nothing: the number is fixed."""
        return False

    def observe(self, records: int, duration_s: float) -> None:
        """Do nothing: the number is fixed."""


@dataclass(slots=True)
class AdaptiveAdmission:
    """`max_records_per_checkpoint: auto`: a checkpoint under backlog takes about `target_s`.

    The number goes half the way that is missing, in the scale of its logarithm. More would overshoot where sinks commit
    behind (`max_backlog`), since a duration is then that of the checkpoint before; this comes to rest in both cases,
    and one checkpoint that was slow by chance is made up for in a few.

    What a checkpoint takes however small it is bounds what smaller ones can help: where that is above half of the
    target, the number is that at which half of the time goes into records. A small checkpoint now and then, a probe,
    tells how long that is; none does where sinks commit behind.
    """

    target_s: float
    probes: bool = True
    records: int = FIRST  # of a checkpoint that is no probe
    _probed: tuple[tuple[int, float], ...] = ()  # the newest checkpoints that were much smaller: records, seconds
    _since: int = 0  # full checkpoints
    _aim_s: float = 0.0  # of the last checkpoint
    _took_s: float = 0.0  # the last checkpoint; 0: nothing is known yet
    _overruns: int = 0  # one after another

    @property
    def max_records(self) -> int:
        return max(self.records // _PROBE, 1) if self._is_probe_due else self.records

    @property
    def limit_s(self) -> float:
        """Return infinity until a checkpoint was observed: the first ones also wait for Spark."""
        if not self._took_s:
            return math.inf
        expected_s = max(self.target_s, self._aim_s, self._took_s)
        return max(_OVERRUN * expected_s, _LEAST_LIMIT_S) * 2.0**self._overruns

    def overrun(self) -> bool:
        """Take a quarter of the records, but no fewer than the minimum. The next tasks may take twice as long."""
        self._overruns = min(self._overruns + 1, _MOST_OVERRUNS)
        self._probed, self._since = (), 0
        self.records = max(round(self.records * _SHRINK), _LEAST)
        return True

    @property
    def _is_probe_due(self) -> bool:
        every = _PROBE_EVERY if self._aim_s <= self.target_s and len(self._fitting) == _PROBES else _PROBE_OFTEN
        known = bool(self._probed) and self._fits(self._probed[-1][0])  # older ones may fit, and are of other times
        return self.probes and self.records > _LEAST and self._since >= (every if known else 1)

    @property
    def _fitting(self) -> list[tuple[int, float]]:
        """The probes that are neither too large nor too small to tell something of the checkpoints of now."""
        return [each for each in self._probed if self._fits(each[0])]

    def _fits(self, records: int) -> bool:
        return _PROBE * records <= 2 * self.records and self.records <= 2 * _PROBE * records

    def observe(self, records: int, duration_s: float) -> None:
        if records <= 0 or duration_s <= 0:
            return  # time has passed in the query, and nothing came
        self._overruns = 0
        was_probe = self._is_probe_due
        if self._fits(records):
            self._probed = (*self._probed, (records, duration_s))[-_PROBES:]
        if was_probe or self._fits(records):
            self._since = 0
        elif 2 * records > self.records:
            self._since += 1
        if was_probe:
            return
        self._took_s = duration_s
        self._aim_s = max(self.target_s, 2 * self._overhead_s(records, duration_s))
        if duration_s > _OTHER_TIMES * self._aim_s:
            self._probed = ()
        if records < _FULL * self.records and duration_s <= self._aim_s:
            return
        factor = min(max(math.sqrt(self._aim_s / duration_s), _SHRINK), _GROW)
        if abs(factor - 1) > _CLOSE:
            self.records = min(max(round(records * factor), _LEAST), _MOST)

    def _overhead_s(self, records: int, duration_s: float) -> float:
        """What a checkpoint without records would take: by the line through this and a probe; of several, the median.

        A probe that took twice as long as this one, and was smaller, is of another time.
        """
        found = [
            seconds - (duration_s - seconds) / (records - size) * size
            for size, seconds in self._fitting
            if 2 * size <= records and seconds <= 2 * duration_s
        ]
        return min(max(statistics.median(found), 0.0), duration_s) if found and self.probes else 0.0
