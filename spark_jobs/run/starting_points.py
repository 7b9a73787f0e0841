"""Where the sources of a pipeline begin, before Spark first hears of their splits; and how far they are told to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.api.contracts import Source
from eos.errors import IdentityError
from spark_jobs.query.spark_log import LocalSparkLog
from twophase.driver import Driver
from twophase.positions import Positions
from twophase.values import StartingPoint


def starting_points(driver: Driver, sources: Sequence[Source], log: LocalSparkLog) -> Mapping[str, StartingPoint]:
    """Where each source's splits began; asked for and stored in head before Spark first hears of them (R6, R10).

    Raises IdentityError if the sources are not those that the pipeline has had: Spark would read on where another one
    ended, and head would record ranges from elsewhere.
    """
    head, names = driver.owned, [source.name for source in sources]
    stored = head.initial
    # A first start may have failed between two sources.
    if not stored.keys() <= set(names) or (head.query_id is not None and len(stored) < len(names)):
        message = f"head holds the positions of {', '.join(sorted(stored))}; the spec's sources are {', '.join(names)}"
        remedy = (
            "change the sources back; or take a savepoint (`eos savepoint`) and start from it, which finds each by its "
            "name; or restart with `eos reset`"
        )
        raise IdentityError(message, remedy=remedy)
    keep_found(driver, sources, log)  # the plan is run as it stands
    for source in sources:
        head = driver.owned
        known = StartingPoint(head.initial.get(source.name, {}), head.identities.get(source.name, {}))
        found = source.starting_point(known)
        if found.positions or source.name not in head.initial:
            driver.store_positions(source.name, found)
    head = driver.owned
    return {name: StartingPoint(head.initial[name], head.identities[name]) for name in names}


def keep_found(driver: Driver, sources: Sequence[Source], log: LocalSparkLog) -> None:
    """Store in head where the splits begin that Spark's undecided plan has found.

    Called before the plan is deleted or run. A split that is found a second time would begin behind the records that
    the service has deleted meanwhile. Raises IdentityError for a plan that cannot be read, HeadError, FencedError.
    """
    head = driver.owned
    for name, plan in log.plan_after(head.incarnation, head.completed, [source.name for source in sources]).items():
        if plan.began != StartingPoint():
            driver.store_positions(name, plan.began)


def commit_back(sources: Sequence[Source], positions: Mapping[str, Positions]) -> None:
    """Tell each service how far its source is (R9). Raises SourceError."""
    for source in sources:
        source.commit_back(positions.get(source.name, {}))
