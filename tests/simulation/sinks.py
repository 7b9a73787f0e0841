"""What a sink does: the calls of `twophase.participants.Committer`, cut into operations that a database does at once.

Every function takes a sink and gives (result, sink). A result ("raise", how it ends) ends the process. `broken` names
a rule that this sink does not keep. Of two kinds: one that `evicts`, as databases do, rolls back what is prepared under
the permits that it deletes, and what a repair prepares there holds the witness of what is lost; the other one, as logs
do, keeps what is prepared until it is told to abort it, and looks for that witness when it commits.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.config import Config
from tests.simulation.world import OTHER, Sink, parse
from twophase.ids import Scope
from twophase.values import CommitOutcome

FENCED = ("raise", "fenced")
REFUSED = ("raise", "stopped")
SET_BACK = ("raise", "set back")
ABSENT = "away"
"""What an inspection answers of a sink that does not answer, and that the start can do without (H32)."""
AWAY = ("raise", "unavailable")
"""The sink does not answer: raised into the process, which may go on with another driver."""


def inspect(sink: Sink, incarnation: str, expected: tuple[str, ...]) -> tuple[Any, Sink]:
    """R2: what a start reads."""
    own = (parse(text) for text in sink.witnesses)
    highest = max((t.scope.checkpoint_id for t in own if t and t.scope.incarnation == incarnation), default=-1)
    missing = tuple(text for text in expected if text not in sink.witnesses)
    return (sink.claim, highest, missing, sink.newest_counted(incarnation)), sink


def claim(
    sink: Sink, incarnation: str, epoch: int, begins: int, counted: int, broken: str, *, take_over: bool
) -> tuple[Any, Sink]:
    """R3: raise the claim row; R2: take it over from another incarnation only on purpose."""
    is_unknown = sink.claim is None or sink.claim[0] != incarnation
    if is_unknown and counted >= 0 and broken != "a claim does not compare the count":
        return SET_BACK, sink
    if sink.claim is not None:
        if sink.claim[0] != incarnation and (not take_over or holds_of_another(sink, incarnation, broken)):
            return REFUSED, sink
        if sink.claim[0] == incarnation and sink.claim[1] > epoch:
            return FENCED, sink
    claimed = sink._replace(claim=(incarnation, epoch), taken_with=None)
    return None, claimed if sink.newest_counted(incarnation) is not None else claimed.counting(incarnation, begins)


def holds_of_another(sink: Sink, incarnation: str, broken: str = "") -> bool:
    """Whether something is prepared under a permit of another incarnation, which alone knows whether it is decided."""
    if broken == "a take-over ends what is prepared":
        return False
    scopes = {text.partition("/")[0] for text in sink.prepared | sink.forgotten}
    return any(not text.startswith(incarnation) for text in scopes & sink.permits)


def take_over(sink: Sink) -> Sink:
    """H28: another incarnation, which reads another head, claims the sink on purpose."""
    return sink._replace(claim=OTHER, taken_with=sink.committed)


def is_claim_held(sink: Sink, broken: str) -> bool:
    """H28: whether a claim of this sink waits: each transaction that applies rows holds the claim until its end."""
    return bool(sink.committing) and broken != "a claim does not wait for who applies"


def is_permit_held(sink: Sink, incarnation: str, epoch: int, broken: str) -> bool:
    """Whether an older permit cannot be deleted yet: a commit is under way of what holds it."""
    if broken.startswith("plain read of the witness"):  # no lock is waited for
        return False
    scopes = (_scope(text.partition("/")[0]) for text, _ in sink.committing)
    return any(scope.incarnation != incarnation or scope.epoch < epoch for scope in scopes)


def is_owned_by_another(sink: Sink, transaction: str) -> bool:
    """Whether the claim that a transaction reads before it applies rows names another incarnation."""
    own = parse(transaction)
    return own is not None and sink.claim is not None and sink.claim[0] != own.scope.incarnation


def revoke_older(
    sink: Sink, incarnation: str, epoch: int, counted: int, broken: str, *, evicts: bool
) -> tuple[Any, Sink]:
    """R3: delete the permits of older epochs; who holds one is ended. Not in a sink that went back in time (H27)."""
    if broken == "claim leaves permits":
        return None, sink
    if _is_behind(sink, incarnation, counted) and broken != "a claim does not compare the count":
        return SET_BACK, sink
    if evicts and holds_of_another(sink, incarnation, broken):
        return REFUSED, sink

    def stays(scope: Scope) -> bool:
        return scope.incarnation == incarnation and scope.epoch >= epoch

    return None, _keep(sink, stays, evicts=evicts)


def _is_behind(sink: Sink, incarnation: str, counted: int) -> bool:
    count = sink.newest_counted(incarnation)
    return counted >= 0 and (count is None or count < counted)


def count(
    sink: Sink,
    incarnation: str,
    checkpoint_id: int,
    expected: tuple[str, ...],
    known: int,
    broken: str,
    *,
    slots: bool,
) -> tuple[Any, Sink]:
    """H26: move the count to this checkpoint, all of which is shown. A slot of a log has done so as it applied it."""
    found = sink.newest_counted(incarnation)
    if found is None or (slots and found >= checkpoint_id):
        return None, sink
    shown = all({text, origin(sink, text)} & sink.witnesses for text in expected)
    if not shown and broken != "a count moves without a look at the witnesses":
        return SET_BACK, sink
    if found < known and broken != "a count moves from wherever it is":
        return SET_BACK, sink
    return None, sink if found >= checkpoint_id else sink.counting(incarnation, checkpoint_id)


def catch_up(sink: Sink, incarnation: str, checkpoint_id: int, counted: int, broken: str) -> tuple[Any, Sink]:
    """Count what was written without counting. Not in a sink that went back in time (H34)."""
    found = sink.newest_counted(incarnation)
    if _is_behind(sink, incarnation, counted) and broken != "catching up does not compare the count":
        return SET_BACK, sink
    return None, sink if found is None or found >= checkpoint_id else sink.counting(incarnation, checkpoint_id)


def is_permitted(sink: Sink, scope: Scope, config: Config, *, is_resumed: bool) -> bool:
    """R5: whether a task may begin. A log has no permits: what is sealed too late nobody decides on, but H33."""
    if not config.evicts:
        return str(scope) in sink.permits or is_resumed
    shown = any(text.startswith(str(scope)) for text in sink.witnesses)
    return str(scope) in sink.permits and (not shown or config.broken == "a task does not look at the witnesses")


def permit(sink: Sink, scope: Scope, counted: int, broken: str, *, is_first: bool, evicts: bool) -> tuple[Any, Sink]:
    """R5: insert a permit, while the claim row is its own, and the sink did not go back in time (H26), nor the driver
    (H33). `is_first`: not of a repair."""
    if sink.claim != (scope.incarnation, scope.epoch) and broken != "permit without claim":
        return FENCED, sink
    if _is_behind(sink, scope.incarnation, counted) and broken != "a permit does not compare the count":
        return SET_BACK, sink
    if is_first and evicts and _has(sink, scope) and broken != "a permit does not look for its checkpoint":
        return SET_BACK, sink
    return None, sink._replace(permits=sink.permits | {str(scope)})


def _has(sink: Sink, scope: Scope) -> bool:
    """Whether the sink counts or shows anything of this checkpoint."""
    found, own = sink.newest_counted(scope.incarnation), (parse(text) for text in sink.witnesses)
    known = {(t.scope.incarnation, t.scope.checkpoint_id) for t in own if t is not None}
    return (found is not None and found >= scope.checkpoint_id) or (scope.incarnation, scope.checkpoint_id) in known


def permit_log(sink: Sink, scope: Scope) -> tuple[Any, Sink]:
    """H32: let writers into the log. Nothing is asked of the sink."""
    return None, sink._replace(permits=sink.permits | {str(scope)})


def revoke(sink: Sink, scope: Scope, broken: str, *, counted: bool, evicts: bool) -> tuple[Any, Sink]:
    """R9: delete the permits of a run and of earlier tries; who holds one is ended. `counted`: as `revoke_older`."""
    known = scope.checkpoint_id if counted else -1
    if _is_behind(sink, scope.incarnation, known) and broken != "a close does not compare the count":
        return SET_BACK, sink

    def stays(other: Scope) -> bool:
        same = (other.incarnation, other.epoch, other.checkpoint_id)
        return same != (scope.incarnation, scope.epoch, scope.checkpoint_id) or other.attempt > scope.attempt

    return None, _keep(sink, stays, evicts=evicts)


def _keep(sink: Sink, stays: Any, *, evicts: bool) -> Sink:
    permits = frozenset(text for text in sink.permits if stays(_scope(text)))
    gone = sink.permits - permits

    def kept(transactions: frozenset[str]) -> frozenset[str]:
        return frozenset(t for t in transactions if t.partition("/")[0] not in gone)

    kept_open = sink._replace(permits=permits, open=kept(sink.open))
    if not evicts:
        return kept_open
    return kept_open._replace(prepared=kept(sink.prepared), forgotten=kept(sink.forgotten))


def sweep(revoked: tuple[Any, Sink], epoch: int) -> tuple[Any, Sink]:
    """A log sweeps away what older epochs have begun, whether its permit is known or not, and what is applied."""
    result, sink = revoked
    if result is not None:
        return revoked
    begun = frozenset(text for text in sink.open if _scope(text.partition("/")[0]).epoch >= epoch)
    return None, sink._replace(open=begun, prepared=waiting(sink, sink.prepared))


def waiting(sink: Sink, prepared: frozenset[str]) -> frozenset[str]:
    """Of what a log holds, what its slots have not applied."""

    def waits(text: str) -> bool:
        own = parse(text)
        found = sink.newest_counted(own.scope.incarnation) if own is not None else None
        return text not in sink.witnesses and (own is None or found is None or own.scope.checkpoint_id > found)

    return frozenset(filter(waits, prepared))


def _scope(text: str) -> Scope:
    scope = Scope.parse(text)
    assert scope is not None
    return scope


def commit(sink: Sink, transaction: str, known: int, broken: str, *, slots: bool, own: bool) -> tuple[Any, Sink]:
    """R7: commit, or let a locking read of the witness decide. `known`, `own`: see Committer.commit."""
    if slots and (applied := _applied(sink, transaction, known, broken, own=own)) is not None:
        return applied, sink
    if transaction in sink.held:
        return CommitOutcome.COMMITTED, committed(_without(sink, transaction), transaction)
    if broken == "unknown is committed":
        return CommitOutcome.ALREADY_COMMITTED, sink
    return _by_witness(sink, transaction, broken), sink


def _applied(sink: Sink, transaction: str, known: int, broken: str, *, own: bool) -> Any:
    """What a slot of a log says that has moved over this checkpoint already, or is behind; None: it applies this."""
    asked = parse(transaction)
    if asked is None:
        return None
    scope, found = asked.scope, sink.newest_counted(asked.scope.incarnation)
    if own and sink.claim != (scope.incarnation, scope.epoch):
        return FENCED
    if own and found is not None and found > scope.checkpoint_id and broken != "a log does not look how far it is":
        return SET_BACK
    key = scope.incarnation, scope.checkpoint_id, asked.task
    shown_ids = (parse(text) for text in sink.witnesses)
    of_slot = {(t.scope.incarnation, t.scope.checkpoint_id, t.task) for t in shown_ids if t is not None}
    if key in of_slot:
        shown = {transaction, origin(sink, transaction)} & sink.witnesses
        return CommitOutcome.ALREADY_COMMITTED if shown else CommitOutcome.LOST
    if found is not None and found >= scope.checkpoint_id:
        return CommitOutcome.LOST if found == scope.checkpoint_id else CommitOutcome.ALREADY_COMMITTED
    return None if found is None or found >= known or transaction not in sink.held else REFUSED


def committed(sink: Sink, transaction: str) -> Sink:
    """It is visible, and so are the witnesses that it holds. Of a log, whose slot moves once, where nobody else was."""
    mine = origin(sink, transaction)
    if mine in sink.witnesses:
        return sink
    return sink._replace(committed=sink.committed | {transaction}, witnesses=sink.witnesses | {transaction, mine})


def _by_witness(sink: Sink, transaction: str, broken: str) -> CommitOutcome:
    under_way = {holds for text, _ in sink.committing for holds in (text, origin(sink, text))}
    if transaction in under_way and not broken.startswith("plain read of the witness"):
        return CommitOutcome.RETRY_LATER
    if broken == "silence is nothing there":
        return CommitOutcome.LOST
    if broken == "who holds a witness is waited for" and transaction in {origin(sink, each) for each in sink.prepared}:
        return CommitOutcome.RETRY_LATER
    return CommitOutcome.ALREADY_COMMITTED if transaction in sink.witnesses else CommitOutcome.LOST


def lost(sink: Sink, transaction: str, broken: str) -> tuple[Any, Sink]:
    """R7: what a repair asks."""
    return transaction not in sink.held and _by_witness(sink, transaction, broken) is CommitOutcome.LOST, sink


def origin(sink: Sink, transaction: str) -> str:
    """The one whose rows these were first."""
    return next((first for text, first in sink.instead if text == transaction), transaction)


def is_hindered(sink: Sink, transaction: str) -> bool:
    """Whether it cannot be prepared: the witness that it has to hold stands, or somebody else holds it."""
    mine = origin(sink, transaction)
    if mine == transaction:
        return False
    others = {*sink.held, *(text for text, _ in sink.committing)} - {transaction}
    return mine in sink.witnesses or any(mine in (each, origin(sink, each)) for each in others)


def prepared(sink: Sink, broken: str) -> tuple[Any, Sink]:
    """R3, R9: list what is prepared. What the server has forgotten is found by its witness, and listed again (H24)."""
    if broken != "only what is listed is ended":
        sink = sink._replace(prepared=sink.held, forgotten=frozenset())
    return tuple(sorted(sink.prepared)), sink


def abort(sink: Sink, transaction: str) -> tuple[Any, Sink]:
    """Roll one transaction back."""
    return None, _without(sink, transaction)


def forget(sink: Sink, transaction: str) -> Sink:
    """H24: the server is asked to end it, answers OK, strikes it from its list, and does nothing."""
    return sink._replace(prepared=sink.prepared - {transaction}, forgotten=sink.forgotten | {transaction})


def _without(sink: Sink, transaction: str) -> Sink:
    return sink._replace(prepared=sink.prepared - {transaction}, forgotten=sink.forgotten - {transaction})


def prune(sink: Sink, incarnation: str, below: int) -> tuple[Any, Sink]:
    """R9: forget witnesses."""

    def stays(text: str) -> bool:
        own = parse(text)
        return own is None or own.scope.incarnation != incarnation or own.scope.checkpoint_id >= below

    return None, sink._replace(witnesses=frozenset(text for text in sink.witnesses if stays(text)))
