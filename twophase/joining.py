"""H32: a sink that was away at the start joins the running driver. Pure.

A start goes on without a sink whose rows wait in a log (`startup.start`, `known`). When the sink is back it is treated
as a start treats it, by its own thread and under the same epoch: it is compared with head before anything is changed
(R2), claimed (R3), given what waits in order (R7), and relieved of what older epochs have left (R3). A driver that was
superseded meanwhile is fenced by head, or by the claim.
"""

from __future__ import annotations

from eos.errors import SetBackError
from twophase import messages
from twophase.messages import Steps
from twophase.news import SinkJoined
from twophase.ownership import Ownership, check_owned
from twophase.startup import abort_leftovers, check_nothing_beyond
from twophase.verify import check_sink


def join(owned: Ownership, sink: str) -> Steps[None]:
    """Compare the sink with head, and claim it: from here on it is one of this driver's sinks.

    Raises SetBackError where the sink counts less than it had counted, so that the next start compares it with all
    records; IdentityError, FencedError.
    """
    yield from check_owned(owned)
    head, counted = owned.head, owned.away[sink]
    inspected = yield from messages.Inspect(head.incarnation, {}, sinks=(sink,))
    state = inspected.sinks[sink]
    check_sink(head, sink, state)
    if state.counted is not None and state.counted < counted:
        raise SetBackError.of(sink, state.counted, counted)
    yield from messages.Claim(
        head.incarnation, head.epoch, begins=head.committed, counted={sink: counted}, sinks=(sink,)
    )
    owned.note_counted({sink: counted})
    yield from check_nothing_beyond(owned, (sink,))
    owned.joined(sink)
    yield from messages.Emit(SinkJoined(sink))


def settle(owned: Ownership, sink: str) -> Steps[None]:
    """R3, second half: roll back what older epochs have left, once everything that they decided is committed there.

    What this epoch prepares meanwhile stays.
    """
    yield from abort_leftovers(owned.head, (sink,), runs=True)
