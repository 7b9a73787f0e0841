"""The explorations that run with every test run, and deeper ones for some minutes and GiB."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.config import Budget, Config


def small(budget: Budget, drivers: int = 2, checkpoints: int = 2) -> Config:
    """One sink and one task."""
    return Config(drivers=drivers, checkpoints=checkpoints, sinks=1, tasks=1, budget=budget)


WAKING = Config(sinks=1, tasks=1, budget=Budget(switches=1, swaps=1), without=frozenset({"crash", "straggler"}))
"""One driver is held up after a swap without an answer, the other one does all the work, then the first wakes up."""

HEAD_SET_BACK = replace(small(Budget(switches=1, head_set_backs=1)), without=frozenset({"crash"}))
"""Head goes back by one swap, while one driver is held up and the other one does the work (H29)."""

HEAD_SET_BACK_TWICE = replace(small(Budget(switches=2, head_set_backs=2), checkpoints=1), without=frozenset({"crash"}))
"""Head goes back by two swaps, over a claim, while two drivers take turns (H29)."""

RESTARTING = replace(small(Budget(switches=1, outages=1), checkpoints=1), restarts=1)
"""One run is superseded by another and then loses its sink: it must not take the pipeline back."""

FORGETFUL = Config(sinks=1, tasks=1, drivers=1, tries=2, budget=Budget(forgets=1, failures=1, retries=1))
"""A server answers OK to a commit or a rollback, and does nothing."""

UPDATE = Config(drivers=2, sinks=1, tasks=2, checkpoints=2, stateful=True, updated=True)
"""The first driver is of the version before, which computes digests in another way; it ends at any moment (R4)."""

AT_LEAST_ONCE = Config(sinks=1, budget=Budget(switches=1), direct=frozenset({0}))
"""A run of either mode, and another one that comes after it or takes over from it."""

SET_BACK_AFTER_AT_LEAST_ONCE = replace(small(Budget(set_backs=1)), evicts=True, direct=frozenset({0}))
"""An exactly-once run has a sink count what an at-least-once run has written, and the sink goes back after that."""

REPAIR = replace(small(Budget(vandals=1), drivers=1, checkpoints=1), repairs=1, evicts=True)
"""A repair alone, of what somebody has rolled back by hand."""

TAKEN_OVER = replace(small(Budget(switches=1, commits=1, take_overs=1)), logs=True)
"""Another incarnation takes over a sink with a log, perhaps while a transaction applies rows there (H28)."""

THEN_AT_LEAST_ONCE = replace(small(Budget(set_backs=1)), evicts=True, direct=frozenset({1}))
"""As many at-least-once checkpoints as are retained, then the sink goes back to before the one before (H34)."""

LOG_AFTER_AT_LEAST_ONCE = replace(THEN_AT_LEAST_ONCE, evicts=False, slots=True, direct=frozenset({0}))
"""A log goes back to before it caught up with at-least-once checkpoints, and the next one waits there (H34)."""

RESCALE_AFTER_AT_LEAST_ONCE = replace(
    small(Budget(set_backs=1), drivers=1), evicts=True, direct=frozenset({0}), rescales=1
)
"""The sink goes back to before it was told what no sink counts: at-least-once checkpoints (H34)."""

RESUMED = replace(small(Budget(snapshots=1), drivers=1), evicts=True, resumes="machine")
"""A machine is restored from a snapshot with its memory, at any moment to any moment before; the sink stays (H33)."""

MEMORY = replace(RESUMED, checkpoints=1, tries=2, resumes="memory", budget=Budget(snapshots=1, failures=1))
"""The driver's memory alone goes back; head and Spark's folder stay as well (H33)."""

RESUMED_LOG = replace(RESUMED, checkpoints=3, evicts=False, slots=True)
"""The same of a sink with a log, which goes back with the machine; further than records are retained (H33)."""

RESUMED_AFTER_A_RESCALE = replace(RESUMED, rescales=1)
"""A checkpoint without rows, of which no witness tells (H33)."""
ABSENT = Config(drivers=2, tasks=1, checkpoints=2, budget=Budget(absences=1))
"""One of two sinks, with a log, is away for a while: drivers start without it, and it joins them (H32)."""

SCENARIOS: dict[str, tuple[Config, int]] = {
    # name: (what is covered, how many worlds there must be at least)
    "two drivers, two sinks, two tasks": (Config(budget=Budget(switches=1)), 20_000),
    "taking turns": (small(Budget(switches=2)), 20_000),
    "three drivers": (small(Budget(), drivers=3, checkpoints=1), 2_000),
    "swaps lost or late, one driver": (small(Budget(swaps=2), drivers=1), 5_000),
    "swaps lost or late, two drivers": (small(Budget(switches=1, swaps=1), checkpoints=1), 40_000),
    "swaps lost or late, and a driver that wakes up": (WAKING, 15_000),
    "tasks run twice, jobs that fail": (Config(drivers=1, tries=2, budget=Budget(retries=1, failures=1)), 15_000),
    "failures that are tolerated": (
        Config(sinks=1, tasks=1, checkpoints=1, tolerated=2, budget=Budget(retries=1, failures=2)),
        3_000,
    ),
    "stragglers of an older driver": (Config(sinks=1, checkpoints=1, budget=Budget(switches=1, retries=1)), 20_000),
    "aborted by another process": (
        small(Budget(switches=2, swaps=1, aborters=1), drivers=1, checkpoints=1),
        2_500,
    ),
    "commits that take their time": (small(Budget(switches=1, commits=1)), 10_000),
    "a sink with a log is taken over by another incarnation": (TAKEN_OVER, 10_000),
    "a reset of a sink with a log, whose commits take their time": (
        replace(small(Budget(switches=1, commits=1), drivers=1), resets=1, logs=True),
        1_000,
    ),
    "a server that forgets": (FORGETFUL, 2_500),
    "a server that forgets, while drivers take over": (small(Budget(switches=1, forgets=1)), 10_000),
    "a server that forgets, and a reset": (replace(small(Budget(forgets=1), drivers=1), resets=1), 900),
    "a server that forgets, and a repair": (replace(REPAIR, budget=Budget(forgets=1, vandals=1)), 450),
    "transactions ended by hand": (small(Budget(switches=1, vandals=1)), 10_000),
    "a reset of two sinks": (replace(small(Budget(), checkpoints=1), sinks=2, resets=1), 8_000),
    "a reset while others run": (replace(small(Budget(switches=1), checkpoints=1), resets=1), 50_000),
    "two resets": (replace(small(Budget(switches=2), drivers=1, checkpoints=1), resets=2), 60_000),
    "a reset whose swaps are lost or late": (replace(small(Budget(swaps=1), drivers=1), resets=1), 4_000),
    "a reset to positions while a driver runs": (replace(small(Budget(switches=2), drivers=1), resets_to=1), 6_000),
    "a reset to positions, swaps lost or late": (replace(small(Budget(swaps=1), drivers=1), resets_to=1), 4_000),
    "transactions ended by hand before a reset": (replace(small(Budget(vandals=1), drivers=1), resets=1), 700),
    "a rescale while others run": (replace(small(Budget(switches=1), checkpoints=1), rescales=1), 10_000),
    "two rescales": (replace(small(Budget(switches=1), drivers=1), rescales=2), 1_000),
    "a rescale whose swaps are lost or late": (replace(small(Budget(swaps=1), drivers=1), rescales=1), 1_000),
    "a rescale at-least-once": (
        replace(small(Budget(switches=1), drivers=1), rescales=1, direct=frozenset({0, 1})),
        300,
    ),
    "a start from a savepoint": (replace(small(Budget(), drivers=1), restores=2, sinks=2), 5_000),
    "a start from a savepoint while a driver runs": (replace(small(Budget(switches=2), drivers=1), restores=1), 2_500),
    "a start from a savepoint, swaps lost or late": (replace(small(Budget(swaps=1), drivers=1), restores=1), 2_500),
    "a driver goes on while others commit": (
        replace(small(Budget(switches=1)), behind=1, evicts=True),
        5_000,
    ),
    "a repair while others run": (replace(REPAIR, drivers=2, budget=Budget(switches=1, vandals=1)), 50_000),
    "two repairs, and what they write is ended by hand": (
        replace(REPAIR, repairs=2, budget=Budget(switches=1, vandals=2)),
        15_000,
    ),
    "two repairs of sinks with logs": (
        replace(REPAIR, repairs=2, evicts=False, budget=Budget(switches=1, vandals=1)),
        10_000,
    ),
    "a repair, tasks run twice, commits that take their time": (
        replace(REPAIR, budget=Budget(switches=1, retries=1, commits=1, vandals=1)),
        7_500,
    ),
    "a repair whose swaps are lost or late": (
        replace(REPAIR, budget=Budget(switches=1, swaps=1, vandals=1)),
        10_000,
    ),
    "a repair whose job gets other rows": (
        replace(REPAIR, tasks=2, budget=Budget(failures=1, drifts=1, vandals=1)),
        1_000,
    ),
    "a repair of state, of sinks that are behind": (
        replace(REPAIR, sinks=2, checkpoints=2, behind=1, stateful=True, budget=Budget(drifts=1, vandals=1)),
        3_000,
    ),
    "an update of a pipeline with state": (UPDATE, 1_000),
    "an update, and a repair of what the version before decided": (
        replace(REPAIR, tasks=2, stateful=True, updated=True),
        500,
    ),
    "at-least-once, then exactly-once": (AT_LEAST_ONCE, 5_000),
    "exactly-once, then at-least-once": (replace(AT_LEAST_ONCE, direct=frozenset({1})), 5_000),
    "at-least-once, swaps lost or late": (replace(small(Budget(switches=1, swaps=1)), direct=frozenset({0, 1})), 5_000),
    "at-least-once, tasks run twice, jobs that fail": (
        Config(drivers=1, tries=2, budget=Budget(retries=1, failures=1), direct=frozenset({0})),
        500,
    ),
    "at-least-once, jobs that fail and are run again in the same call": (
        Config(drivers=1, tolerated=2, budget=Budget(retries=1, failures=2), direct=frozenset({0})),
        500,
    ),
    "a sink that goes back in time": (replace(small(Budget(set_backs=1), drivers=1), evicts=True), 500),
    "a sink with a log that goes back in time": (small(Budget(set_backs=1), drivers=1), 500),
    "one of two sinks goes back in time": (
        replace(small(Budget(set_backs=1), drivers=1, checkpoints=1), sinks=2, evicts=True),
        500,
    ),
    "a sink goes back in time while drivers take over": (
        replace(small(Budget(switches=1, set_backs=1)), evicts=True),
        5_000,
    ),
    "a sink goes back in time before a reset, or under it": (
        replace(small(Budget(set_backs=1), drivers=1), evicts=True, resets=1),
        1_000,
    ),
    "a repair of a sink that goes back in time": (
        replace(small(Budget(set_backs=1), drivers=1), evicts=True, repairs=1, retained=2),
        1_000,
    ),
    "a repair of a log that goes back in time": (
        replace(small(Budget(set_backs=1), drivers=1), repairs=1, retained=2),
        1_000,
    ),
    "a run whose sink goes back in time restarts": (
        replace(small(Budget(set_backs=1), drivers=1), evicts=True, restarts=1),
        500,
    ),
    "exactly-once, then at-least-once, and the sink goes back in time": (THEN_AT_LEAST_ONCE, 10_000),
    "exactly-once, then at-least-once, and a sink with a log goes back in time": (
        replace(THEN_AT_LEAST_ONCE, evicts=False),
        10_000,
    ),
    "at-least-once, then exactly-once, and the sink goes back in time": (
        replace(THEN_AT_LEAST_ONCE, direct=frozenset({0})),
        5_000,
    ),
    "at-least-once, then exactly-once, and a sink with a log goes back in time": (LOG_AFTER_AT_LEAST_ONCE, 5_000),
    "a rescale after at-least-once, and the sink goes back in time": (RESCALE_AFTER_AT_LEAST_ONCE, 1_000),
    "a machine is restored with its memory": (RESUMED, 5_000),
    "a machine is restored with its memory, and with a log": (RESUMED_LOG, 10_000),
    "a machine is restored with its memory, two sinks": (replace(RESUMED, checkpoints=1, sinks=2), 4_000),
    "a machine is restored with its memory, and jobs fail": (
        replace(MEMORY, resumes="machine"),
        5_000,
    ),
    "a driver's memory alone goes back": (replace(RESUMED, resumes="memory"), 10_000),
    "a driver's memory alone goes back, and jobs fail": (MEMORY, 10_000),
    "a driver's memory alone goes back, of a sink with a log": (
        replace(RESUMED, evicts=False, slots=True, resumes="memory"),
        10_000,
    ),
    "starts while a sink is away (H32)": (ABSENT, 1_000),
    "starts of two drivers while a sink is away (H32)": (
        replace(ABSENT, drivers=2, checkpoints=1, budget=Budget(switches=1, absences=1)),
        1_000,
    ),
    "a sink goes back in time after at-least-once": (SET_BACK_AFTER_AT_LEAST_ONCE, 5_000),
    "a run that restarts": (replace(small(Budget(outages=2), drivers=1, checkpoints=1), restarts=2), 1_500),
    "two runs that restart": (RESTARTING, 20_000),
    "head goes back while drivers run (H29)": (HEAD_SET_BACK, 5_000),
    "head goes back over a claim (H29)": (HEAD_SET_BACK_TWICE, 10_000),
    "head goes back while a commit takes its time (H29)": (
        replace(HEAD_SET_BACK, checkpoints=1, evicts=True, budget=HEAD_SET_BACK.budget._replace(commits=1)),
        5_000,
    ),
    "head goes back before a reset, or under it (H29)": (
        replace(small(Budget(head_set_backs=1), drivers=1, checkpoints=1), resets=1, evicts=True),
        1_000,
    ),
    "head goes back under a run that restarts (H29)": (
        replace(small(Budget(outages=1, head_set_backs=2), drivers=1), restarts=1),
        1_000,
    ),
}

DEEP: dict[str, Config] = {
    "two drivers, two sinks, two tasks": Config(budget=Budget(switches=2)),
    "taking turns": small(Budget(switches=3)),
    "three drivers": small(Budget(switches=1), drivers=3),
    "swaps lost or late": small(Budget(switches=1, swaps=1)),
    "two swaps lost or late": small(Budget(switches=1, swaps=2), checkpoints=1),
    "tasks run twice, jobs that fail": Config(
        sinks=1, checkpoints=1, tries=2, budget=Budget(switches=1, retries=1, failures=1)
    ),
    "aborted by another process": small(Budget(switches=1, swaps=1, aborters=1), checkpoints=1),
    "commits that take their time": small(Budget(switches=2, commits=1)),
    "two resets of two checkpoints": replace(small(Budget()), resets=2),
    "a rescale while others run": replace(small(Budget(switches=1)), rescales=1),
    "two repairs while others run": replace(REPAIR, drivers=2, repairs=2, budget=Budget(switches=1, vandals=1)),
    "two repairs of sinks that are behind": replace(
        REPAIR, sinks=2, checkpoints=2, behind=1, repairs=2, budget=Budget(switches=1, vandals=1)
    ),
    "two repairs of a sink that is far behind": replace(
        REPAIR, checkpoints=3, behind=2, repairs=2, budget=Budget(switches=1, vandals=2)
    ),
    "a repair in a rescale": replace(REPAIR, checkpoints=2, rescales=1, budget=Budget(switches=1, vandals=1)),
    "a repair in a reset": replace(REPAIR, evicts=False, resets=1, budget=Budget(switches=1, vandals=1)),
    "a reset of two sinks while others run": replace(small(Budget(switches=2), checkpoints=1), sinks=2, resets=1),
    "two runs that restart": replace(small(Budget(switches=2, outages=1)), restarts=1),
    "a sink goes back under a start after at-least-once": replace(THEN_AT_LEAST_ONCE, drivers=3),
    "at-least-once, and the sink goes back while drivers take over": replace(
        THEN_AT_LEAST_ONCE, budget=Budget(switches=1, set_backs=1)
    ),
    "at-least-once, and a reset of a sink that goes back": replace(THEN_AT_LEAST_ONCE, resets=1),
    "at-least-once, and a repair of a sink that goes back": replace(THEN_AT_LEAST_ONCE, repairs=1),
    "a machine is restored with its memory, and a rescale": RESUMED_AFTER_A_RESCALE,
    "a machine is restored with its memory, and a repair": replace(MEMORY, resumes="machine", repairs=1),
    "a driver's memory alone goes back among two drivers": replace(RESUMED, drivers=2, resumes="memory"),
    "a machine is restored with its memory, and a run that restarts": replace(RESUMED, restarts=1),
    "a reset to positions among two drivers": replace(small(Budget(switches=2)), resets_to=1),
    "a start from a savepoint among two drivers": replace(small(Budget(switches=2)), restores=1),
}
