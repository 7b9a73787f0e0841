"""Builds the streaming query that a spec describes: sources, steps up to the roots, and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from connectors.api.contracts import Source, Unopened, names_schemas
from connectors.dead_letters import SCHEMA
from connectors.registry import build_source
from connectors.spark_types import quoted
from connectors.spec import PythonStep, Spec
from connectors.spec.flow import behind
from eos.errors import SpecError
from spark_jobs.batch.branches import Branch, Flow, branches_of
from spark_jobs.batch.chaining import Chain, chains_of
from spark_jobs.batch.columns import check_hashable
from spark_jobs.batch.dead_letters import DeadLetters
from spark_jobs.query.marks import counting, has_marks, with_mark
from spark_jobs.query.pacing.turns import ALL_THERE, Turns
from spark_jobs.query.plan import is_deterministic, is_stateful, new_state, streaming_leaves, unrepeatable, used_columns
from spark_jobs.query.roots import union_of
from spark_jobs.query.source import data_source, format_name
from spark_jobs.query.steps import apply_steps
from spark_jobs.session.arrow import from_arrow
from spark_jobs.session.versions import STATE, installed, refusal
from twophase.values import Schemas, StartingPoint


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A built query, not yet started."""

    rows: DataFrame  # of the roots
    flow: Flow
    stateful: bool
    output_mode: str
    letters: DeadLetters | None
    chains: Sequence[Chain]  # one for each branch, where nothing stands between sources and sinks
    columns: Mapping[str, Mapping[str, str]]  # by sink: types of the columns that it gets, by name
    naming: Sequence[Source]  # sources whose records name schemas


Began = Mapping[str, StartingPoint]
"""Source -> where it began."""


def build(
    spark: SparkSession,
    spec: Spec,
    sources: Sequence[Source],
    sinks: Sequence[Unopened],
    began: Began,
    dead_letter: Unopened | None = None,
    *,
    turns: Turns = ALL_THERE,
    schemas: Schemas | None = None,
) -> Pipeline:
    """Build the query. `schemas`: of head; no record is decoded with another one (H35).

    Called at every start of it, after recovery (R3); opens the sinks, which may make their tables.

    Built twice: the first time with every column of the sources, to see which ones are used; then with only those, and
    with what counts the records that are put aside or left out.

    Raises SpecError for a step that Spark does not accept, TargetError where the rows do not fit the target.
    """
    known = schemas or {}
    sources = [each.with_schemas(known.get(each.name, {})) if names_schemas(each) else each for each in sources]
    frames = _frames(spark, spec, sources, began, turns)
    _check_read_once(spec, frames, sources)
    _check_stateless(spec, frames)
    again = not _keeps_state(spec, frames)  # a batch may be tried: state would grow
    if not again:
        _check_one_mode(spec, frames)
        _check_rejects_nothing(spec)
    _check_letters_repeat(spec, frames)
    letters = dead_letter is not None and again
    branches = _branches(spec, sinks, frames, letters=letters, again=again and not letters)
    flow = Flow(spec, tuple(branches))  # opens the sinks, which may make tables: checked first
    narrow = [source.select(_used(spark, flow, frames, source)) for source in sources]
    if narrow == list(sources) and not any(map(has_marks, sources)):
        rows = _rows(spark, flow, frames)
    else:
        try:
            rows = _rows(spark, flow, _frames(spark, spec, narrow, began, turns, marking=True))
        except (SpecError, AnalysisException):  # a step names a column that it then drops: read all of them
            narrow = list(sources)
            rows = _rows(spark, flow, _frames(spark, spec, sources, began, turns, marking=True))
    stateful = is_stateful(rows)
    if stateful:
        for branch in flow.branches:
            check_hashable(branch.of(frames[branch.rows]))
        _check_order(spec)
    letters_of = _letters(spec, narrow, dead_letter)  # what is bad depends on the columns that are read
    columns = {
        sink.name: _types(frames[branch.rows], sink.columns) for branch in flow.branches for sink in branch.sinks
    }
    naming = [source for source in narrow if names_schemas(source)]
    return Pipeline(rows, flow, stateful, output_mode(spec), letters_of, chains_of(flow, sources), columns, naming)


def types_of(source: Source) -> dict[str, str]:
    """The types of a source's columns as Spark writes them, by name."""
    return {each.name: each.dataType.simpleString() for each in from_arrow(source.schema)}


def _types(frame: DataFrame, names: Sequence[str]) -> dict[str, str]:
    types = {each.name: each.dataType.simpleString() for each in frame.schema}
    return {name: types[name] for name in names if name in types}


def _letters(spec: Spec, sources: Sequence[Source], sink: Unopened | None) -> DeadLetters | None:
    if sink is None:
        return None
    return DeadLetters(sink.open(SCHEMA), sources, spec.checkpoint.max_dead_letters)


def _branches(
    spec: Spec, sinks: Sequence[Unopened], frames: Mapping[str, DataFrame], *, letters: bool, again: bool
) -> Iterator[Branch]:
    of_rows: dict[str, list[Unopened]] = {}
    for entry, sink in zip(spec.sinks, sinks, strict=True):
        assert entry.from_ is not None  # a spec with sources says so
        of_rows.setdefault(entry.from_, []).append(sink)
    for rows, group in of_rows.items():
        yield from branches_of(rows, frames[rows], group, letters=letters, again=again)


def _rows(spark: SparkSession, flow: Flow, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of the roots. The only root's rows are as they are: a query that runs keeps its plan."""
    roots = flow.roots
    columns = {root: _needed(flow, root) for root in roots}
    if len(roots) > 1:
        return union_of(spark, columns)
    rows, needed = frames[roots[0]], columns[roots[0]]
    return rows if needed is None else rows.select(*map(quoted, needed))


def _needed(flow: Flow, root: str) -> list[str] | None:
    """The columns that are needed of a root; None, all columns, where a step is between the root and its sinks."""
    spec = flow.spec
    later = any(spec.root_of(step.name) == root for step in spec.branches)
    if later or any(step.rejects_rows for step in spec.transforms if step.name == root):
        return None  # a dead letter has all columns of its row
    own = (branch for branch in flow.branches if branch.rows == root)
    return list(dict.fromkeys(column for branch in own for column in branch.placed_columns))


def _used(spark: SparkSession, flow: Flow, frames: Mapping[str, DataFrame], source: Source) -> list[str]:
    names = source.schema.names
    used = {name for b in flow.branches for name in used_columns(spark, b.placed(frames[b.rows]), names)}
    return [name for name in names if name in used]


def _check_stateless(spec: Spec, frames: Mapping[str, DataFrame]) -> None:
    """Behind its root a step sees one checkpoint's rows alone: an aggregate there would be of those, in silence.

    Where a root keeps state, a batch that is decided may run again, and gives the same rows only if each step does.
    """
    stateful = [root for root in spec.roots if is_stateful(frames[root])]
    for step in spec.branches:
        root = spec.root_of(step.name)
        reason = new_state(frames[root], frames[step.name], output_mode(spec))
        if not reason and stateful and (why := unrepeatable(frames[root], frames[step.name])):
            keeping = root if root in stateful else stateful[0]
            reason = f"{why}, and {keeping} keeps state, so that a batch may run again"
        if reason:
            message = f"transforms[{spec.transforms.index(step)}] ({step.name}): {reason}; it stands behind "
            message += f"{root}, where the flow to the sinks divides"
            raise SpecError(message, remedy=f"do this in a step up to {root}, or write in two pipelines")


def _keeps_state(spec: Spec, frames: Mapping[str, DataFrame]) -> bool:
    return any(is_stateful(frames[root]) for root in spec.roots)


def _check_one_mode(spec: Spec, frames: Mapping[str, DataFrame]) -> None:
    """Refuse roots with state whose output modes differ: Spark has one mode for the whole query."""
    updating = {step.name for step in spec.transforms if step.output_mode == "update"}
    stateful = [root for root in spec.roots if is_stateful(frames[root])]
    modes = {root: bool(updating & {root, *behind(spec.inputs, (), [root])}) for root in stateful}
    if len(set(modes.values())) > 1:
        update = next(root for root, is_update in modes.items() if is_update)
        append = next(root for root, is_update in modes.items() if not is_update)
        message = f"{update} keeps state with output_mode update, and {append} with append: a query has one output mode"
        raise SpecError(message, remedy="give the steps of both the same output_mode, or write in two pipelines")


def _check_rejects_nothing(spec: Spec) -> None:
    """A second job computes the rows of dead letters: with state, a batch cannot run a second time."""
    for index, step in enumerate(spec.transforms):
        if step.rejects_rows:
            message = f"transforms[{index}] ({step.name}): a rule has action dead-letter, and the pipeline keeps state"
            raise SpecError(message, remedy="use action skip or fail; or apply the rule in a pipeline without state")


def _check_letters_repeat(spec: Spec, frames: Mapping[str, DataFrame]) -> None:
    """Refuse a rule over rows that a second computation could not give. The batch finds what no plan shows."""
    for index, step in enumerate(spec.transforms):
        if not step.rejects_rows:
            continue
        reason = "" if is_deterministic(frames[step.name]) else "it is not deterministic"
        if step in spec.branches:  # up to the root the time is that of the batch
            reason = reason or unrepeatable(frames[spec.root_of(step.name)], frames[step.name])
        if reason:
            message = f"transforms[{index}] ({step.name}): {reason}, and a rule has action dead-letter: its rows are "
            raise SpecError(message + "computed twice", remedy="use action skip or fail, or a step that repeats itself")


def output_mode(spec: Spec) -> str:
    """Spark's, for the whole query."""
    return "update" if any(step.output_mode == "update" for step in spec.transforms) else "append"


def _check_order(spec: Spec) -> None:
    """H22: several tasks read one partition in no order, and state that depends on it would differ when run again."""
    sorts = any(isinstance(step, PythonStep) and step.sorts_by_offset for step in spec.transforms)
    for index, entry in enumerate(spec.sources):
        if entry.unordered_by and not sorts:
            message = (
                f"sources[{index}].{entry.unordered_by}: the records of a partition reach a stateful step in no order"
            )
            remedy = (
                "remove it; or sort by _partition and _offset in the step, which says so by `sorts_by_offset: true`"
            )
            raise SpecError(message, remedy=remedy)


def _check_read_once(spec: Spec, frames: Mapping[str, DataFrame], sources: Sequence[Source]) -> None:
    """Spark would read a source that stands twice in a query twice, each with positions of its own."""
    leaves = [leaf for root in spec.roots for leaf in streaming_leaves(frames[root])]
    for index, source in enumerate(sources):
        times = leaves.count(format_name(source))
        if times != 1:
            message = f"sources[{index}] ({source.name}): the steps read it {times} times"
            remedy = (
                "remove it" if times == 0 else "read it once; or give it a second entry in sources, with another name"
            )
            raise SpecError(message, remedy=remedy)


def sink_rows(
    spark: SparkSession, spec: Spec, sources: Sequence[Source], began: Began, turns: Turns = ALL_THERE
) -> dict[str, DataFrame]:
    """The rows as they leave the steps, by sink, with every column. Asks no sink. Raises SpecError for a wrong step."""
    frames = _frames(spark, spec, sources, began, turns)
    _check_read_once(spec, frames, sources)
    _check_stateless(spec, frames)
    return {entry.name: frames[entry.from_] for entry in spec.sinks if entry.from_ is not None}


def root_rows(spark: SparkSession, spec: Spec, sources: Sequence[Source]) -> DataFrame:
    """The streaming query up to the roots, to look at and not to be started. Asks no service. Raises SpecError."""
    frames = _frames(spark, spec, sources, {}, ALL_THERE)
    _check_read_once(spec, frames, sources)
    roots = spec.roots
    return frames[roots[0]] if len(roots) == 1 else union_of(spark, dict.fromkeys(roots))


def check_version(spark: SparkSession, spec: Spec) -> None:
    """Refuse steps with state on a version of PySpark that runs none.

    Called by the runner at each start, and by a start from a savepoint, before head changes.

    Raises SparkUnavailableError; SpecError for a wrong step.
    """
    if (error := refusal(STATE, installed())) is not None:
        sources = [build_source(entry) for entry in spec.sources]
        if is_stateful(root_rows(spark.newSession(), spec, sources)):
            raise error


def _frames(
    spark: SparkSession,
    spec: Spec,
    sources: Sequence[Source],
    began: Began,
    turns: Turns,
    *,
    marking: bool = False,
) -> dict[str, DataFrame]:
    """The sources and every step, as one streaming query."""
    read: dict[str, DataFrame] = {}
    for source in sources:
        marks = marking and has_marks(source)
        schema = from_arrow(with_mark(source) if marks else source.schema)
        start = began.get(source.name, StartingPoint())
        spark.dataSource.register(data_source(source, schema, start, turns, marks=marks))
        frame = spark.readStream.format(format_name(source)).load()
        read[source.name] = counting(source, frame) if marks else frame
    return apply_steps(spark, spec, spec.transforms, read)
