"""What an operator, a failover or a copied folder does to the stores while nobody runs (R2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.world import OTHER, Sink, Spark, World, head_of

Predecessors = dict[tuple[int, bytes], bytes]
"""Which head each head was swapped from."""

Tampering = Callable[[World, Predecessors], Iterator[World]]


def wipe_spark(world: World, _: Predecessors) -> Iterator[World]:
    """Spark's checkpoint folder is deleted."""
    if world.spark != Spark():
        yield world._replace(spark=Spark())


def set_spark_back(world: World, _: Predecessors) -> Iterator[World]:
    """Spark's checkpoint folder is restored from before its newest batch."""
    if world.spark.planned >= 0:
        planned = world.spark.planned - 1
        yield world._replace(spark=Spark(planned, min(planned, world.spark.committed), world.spark.query))


def delete_last_commit(world: World, _: Predecessors) -> Iterator[World]:
    """The newest file of Spark's commits/ is lost: Spark runs that batch again."""
    if world.spark.committed >= 0:
        yield world._replace(spark=world.spark._replace(committed=world.spark.committed - 1))


def lose_undecided_plan(world: World, _: Predecessors) -> Iterator[World]:
    """A power cut takes the newest file of Spark's offsets/, or leaves it empty, before anything is decided by it."""
    head = head_of(world.head)
    completed = head.completed if head is not None else -1
    if world.spark.planned > completed:
        yield world._replace(spark=world.spark._replace(planned=completed))


def rebuild_spark(world: World, _: Predecessors) -> Iterator[World]:
    """The driver's machine is lost. Spark's checkpoint folder is rebuilt from head, and from the kept state.

    Where the state after the newest checkpoint was not kept, the folder has the state before it.
    """
    head = head_of(world.head)
    if head is None:
        yield world._replace(spark=Spark())
        return
    yield world._replace(spark=Spark(head.completed, head.completed, head.query_id))
    if head.completed >= 0:
        yield world._replace(spark=Spark(head.completed, head.completed - 1, head.query_id))


def set_head_back(world: World, before: Predecessors) -> Iterator[World]:
    """Head fails over to a replica that lacks the newest swap (H6)."""
    if world.version:
        yield world._replace(version=world.version - 1, head=before[world.version, world.head])


def claim_by_another(world: World, _: Predecessors) -> Iterator[World]:
    """The same pipeline was run from another folder, and has claimed one of the sinks (H11)."""
    for index in range(len(world.sinks)):
        yield world.with_sink(index, claim=OTHER)


def another_folder(world: World, _: Predecessors) -> Iterator[World]:
    """The spec is run from a new folder, with the same sinks (H11)."""
    if world.version:
        yield world._replace(version=0, head=b"", records=frozenset(), spark=Spark())


def wipe_sink(world: World, _: Predecessors) -> Iterator[World]:
    """A sink is restored from a time before this pipeline."""
    for index, sink in enumerate(world.sinks):
        if sink.claim is not None:
            sinks = (*world.sinks[:index], Sink(), *world.sinks[index + 1 :])
            yield world._replace(sinks=sinks)


def lose_record(world: World, _: Predecessors) -> Iterator[World]:
    """A record that head needs is deleted."""
    head = head_of(world.head)
    if head is not None and head.records:
        yield world._replace(records=world.records - {head.records[-1].name})


TAMPERINGS: dict[str, tuple[Tampering, int]] = {
    # name: (what is done, how many starts must be refused at least)
    "Spark's checkpoint is wiped": (wipe_spark, 20),
    "Spark's checkpoint is set back": (set_spark_back, 15),
    "Spark's last commit is deleted": (delete_last_commit, 0),
    "a plan that is not decided is lost": (lose_undecided_plan, 0),
    "the driver's machine is lost": (rebuild_spark, 0),
    "head is set back": (set_head_back, 10),
    "another incarnation claims a sink": (claim_by_another, 50),
    "the spec is run from another folder": (another_folder, 40),
    "a sink is wiped": (wipe_sink, 20),
    "a record is lost": (lose_record, 30),
}
