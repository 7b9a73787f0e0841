"""When the next checkpoint is due: by `interval` and `min_pause`, or at once on request. Pure: the clock is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Schedule:
    """Of one query. All times are of one monotonic clock, in seconds."""

    interval_s: float  # from one begin to the next
    min_pause_s: float  # from an end to the next begin
    due_s: float = float("-inf")  # the first one begins at once
    _is_asked: bool = False  # for one that has not begun

    def began(self, now_s: float) -> None:
        """A checkpoint has begun.

        The beat is kept where the begin was a little late, as planning makes each one; where there was nothing to read
        for longer, or a checkpoint took longer, it begins anew.
        """
        self._is_asked = False
        is_on_beat = now_s - self.due_s < self.interval_s
        self.due_s = (self.due_s if is_on_beat else now_s) + self.interval_s

    def ended(self, now_s: float) -> None:
        """It has ended, well or not."""
        if not self._is_asked:
            self.due_s = max(self.due_s, now_s + self.min_pause_s)

    def ask(self, now_s: float) -> None:
        """The next one is due now, or as soon as the one under way has ended, whatever the settings say."""
        self._is_asked = True
        self.due_s = min(self.due_s, now_s)
