"""`eos rescale`: repartitions the state of a stateful pipeline (R2)."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from connectors.registry import build_sink
from connectors.spec import Spec
from eos.errors import IdentityError, SpecError
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.observe.head_reader import read_head, read_pause
from spark_jobs.observe.run_lock import alone, check_stopped
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.query.spark_log import STATE_PARTITIONS
from spark_jobs.run.open_driver import open_driver
from spark_jobs.session.versions import RESCALE, require_spark
from twophase.head_value import HeadValue
from twophase.rescale import Rescaled, is_at_rest

StatePartitions = Annotated[
    int, typer.Option("--state-partitions", min=1, show_default=False, help="New number of partitions.")
]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rescale would do, as it looks now."""

    what: Literal["rescale", "nothing", "finish", "take back"]
    before: int
    after: int
    state_bytes: int
    completed: int  # newest completed checkpoint


def rescale(
    spec: SpecPath,
    state_partitions: StatePartitions,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this option, only show the effect.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Repartition the state of a stateful pipeline, so more or fewer tasks keep it.

    Aggregations, deduplications, joins and transformWithState keep one part of their state in each task. The first run
    sets the number of parts (`spark.sql.shuffle.partitions`), and Spark never changes it afterwards. This command has
    Spark read the whole state and write it with another number of partitions. It reads nothing from the sources and
    writes nothing to the sinks. Head counts it as a checkpoint without rows.

    Stop the pipeline first. A batch that the stop interrupted is completed. If the command is killed, run it again: it
    continues, and until then the pipeline does not start. With the previous number, an unfinished rescale is undone. If
    Spark fails, nothing has changed. With the checkpoint location in an object store, a killed command has changed
    nothing either.

    Refused if the pipeline is stateless or running, if it is paused and a batch was interrupted, or if
    `spark.sql.shuffle.partitions` in the spec is another number: change or remove it first.

    Exit code: 0, also if the state has that number already; 1 if it was refused or failed; 2 if the spec or the number
    is wrong.

    Examples:

        eos rescale orders.yaml --state-partitions 16

        eos rescale orders.yaml --state-partitions 16 --yes
    """
    loaded = out.load(spec)
    require_spark(RESCALE)
    _check_spec(loaded, state_partitions)
    _head(loaded)
    log_to_stderr()
    with alone(loaded, "rescale"):
        plan = _plan(loaded, state_partitions)
        if not as_json:
            out.show(out.text(_said(loaded, plan)))
        done = _rescale(loaded, state_partitions) if yes and plan.what != "nothing" else None
    if as_json:
        number = done.record.checkpoint_id if done is not None and done.record is not None else None
        facts = {"ok": True, "pipeline": loaded.pipeline, "done": done is not None, "checkpoint_id": number}
        out.facts({**facts, **asdict(plan)})
    elif done is not None and done.record is not None:
        said = f"Done: checkpoint {done.record.checkpoint_id} has repartitioned the state into {done.now} partitions."
        out.show(out.text(said, "bold"))
    elif done is not None:
        out.show(out.text(f"Done: the state has {done.now} partitions.", "bold"))
    elif plan.what != "nothing":
        out.show(out.text("Nothing was changed. Add --yes to do it.", "bold"))


def _check_spec(spec: Spec, state_partitions: int) -> None:
    if not spec.sources:
        message = "the spec names no sources: it is for a job of your own, which keeps its state itself"
        raise SpecError(message, remedy="use Spark's StreamingCheckpointManager with the job's checkpointLocation")
    said = str(spec.spark.conf.get(STATE_PARTITIONS, state_partitions))
    if said != str(state_partitions):
        message = f"the spec's `spark.conf` has {STATE_PARTITIONS}: {said}, and not {state_partitions}"
        remedy = f"write {state_partitions} there, then a new incarnation of the pipeline begins with it; or remove it"
        raise SpecError(message, remedy=remedy)


def _plan(spec: Spec, wanted: int) -> Plan:
    """Changes nothing.

    Raises AlreadyRunningError if the pipeline runs, SpecError if it has no state, IdentityError if a pause keeps the
    interrupted batch from its end.
    """
    check_stopped(spec)
    head, log = _head(spec), spark_log(spec)
    log.fetch_state(head)
    log.check_divisible(head.incarnation)
    spark = log.state(head.incarnation)
    before, unfinished = spark.state_partitions.get(head.completed, 0), None
    if spark.newest_planned == head.completed + 1:
        unfinished = spark.rescaled_to
    what: Literal["rescale", "nothing", "finish", "take back"]
    if unfinished is not None:
        what = "finish" if unfinished == wanted else "take back"
    else:
        what = "nothing" if before == wanted else "rescale"
    if what != "nothing" and not is_at_rest(head, spark) and read_pause(spec) is not None:
        message = f"{spec.pipeline} is paused, and its interrupted batch must end before a rescale"
        raise IdentityError(message, remedy="run `eos resume` first")
    return Plan(what, before, wanted, log.state_bytes(head.incarnation), head.completed)


def _head(spec: Spec) -> HeadValue:
    """As it is now. Raises SpecError for a pipeline that has completed nothing."""
    head = read_head(spec)
    if head is None or head.completed < 0:
        message = f"pipeline {spec.pipeline} has completed no checkpoint yet, so it has no state"
        raise SpecError(message, remedy=f"give {STATE_PARTITIONS} in the spec's `spark.conf`: the first run takes it")
    return head


def _said(spec: Spec, plan: Plan) -> str:
    where = f"Pipeline {spec.pipeline!r} has completed checkpoint {plan.completed}, with {plan.before} state partitions"
    size = f"{plan.state_bytes / 1e6:,.1f} MB on disk with older versions"
    match plan.what:
        case "nothing":
            return f"{where}: there is nothing to do."
        case "finish":
            return f"{where}. A rescale to {plan.after} is unfinished ({size}): it will be completed."
        case "take back":
            return f"{where}. A rescale to another number is unfinished: it will be undone."
        case "rescale":
            return f"{where} ({size}). The whole state is read and rewritten as {plan.after} partitions."


def _rescale(spec: Spec, state_partitions: int) -> Rescaled:
    from spark_jobs.observe.console import ConsoleListener  # Spark takes a second to import
    from spark_jobs.operations.rescale import Rewriting, bring_to_rest
    from spark_jobs.run.known_sinks import KnownSinks
    from spark_jobs.session.spark_session import spark_session

    out.say("starting Spark")
    spark = spark_session(spec, debug=out.debug)
    try:
        log = spark_log(spec)
        head = _head(spec)
        if not is_at_rest(head, log.state(head.incarnation)):
            out.say("completing the interrupted batch")
            bring_to_rest(spec, spark, ConsoleListener(spec.pipeline, out.console()))
        sinks = [build_sink(spec, entry) for entry in spec.outputs]
        with open_driver(spec, sinks, log, session=f"{secrets.token_hex(8)}.0") as driver:
            head, known = _head(spec), KnownSinks.of(spec)
            for name, committer in driver.committers.items():
                known.announce_slots(head, name, committer.slots)
            done = driver.rescale(state_partitions, Rewriting(spark, log, out.say))
            log.note_end(done.head)
            return done
    finally:
        spark.stop()
