"""Names of steps and the references between them, checked on the document: also where an entry is wrong otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.api import plugins
from connectors.api.document import Document, Items, Section
from connectors.api.entry import SinkEntry
from connectors.api.mistakes import Path, nearest
from connectors.dead_letter_names import NAME, STEP
from connectors.spec.expectations import DEAD_LETTER
from connectors.spec.flow import behind, groups_of, sources_of, trunk_of
from connectors.spec.spec import Spec
from connectors.spec.sql_syntax import Columns

_OF_STATE: Final = {"watermark": "watermark", "output_mode": "output_mode", "state_ttl_s": "state_ttl"}
"""Fields of a step that concern state, with their keys."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A source, step or sink with a name, in the order of the pipeline."""

    kind: str  # "source", "step" or "sink"
    name: str
    path: Path
    order: int
    inputs: tuple[tuple[Path, str], ...]


def check_graph(document: Document) -> None:
    """Report names that stand twice and references that lead nowhere, forward or around."""
    entries = list(_entries(document.root))
    _check_names(document, entries)
    _check_references(document, entries)
    _check_inputs(document)


def _entries(root: Section) -> Iterator[_Entry]:
    order = 0
    for group, kind in (("sources", "source"), ("transforms", "step"), ("sinks", "sink")):
        items = root.get(group)
        for index, item in enumerate(items if isinstance(items, Items) else ()):
            order += 1
            if isinstance(item, Section):
                name = item.get("name")
                path: Path = (group, index)
                inputs = () if kind == "source" else tuple(_inputs(item, path))
                yield _Entry(kind, name if isinstance(name, str) else "", path, order, inputs)
    if isinstance(letter := root.get("dead_letter"), Section):
        name = letter.get("name", NAME)
        yield _Entry("sink", name if isinstance(name, str) else "", ("dead_letter",), order + 1, ())


def _inputs(item: Section, path: Path) -> Iterator[tuple[Path, str]]:
    value = item.get("from")
    if isinstance(value, str):
        yield (*path, "from"), value
    for index, name in enumerate(value if isinstance(value, Items) else ()):
        if isinstance(name, str):
            yield (*path, "from", index), name


def _check_names(document: Document, entries: list[_Entry]) -> None:
    """Views of Spark SQL do not tell upper from lower case."""
    first: dict[str, _Entry] = {}
    for entry in entries:
        if not entry.name:
            continue
        other = first.setdefault(entry.name.casefold(), entry)
        if other is not entry:
            line = document.line_of((*other.path, "name"))
            same = "" if other.name == entry.name else ", which differs only in case"
            found = f"the name '{entry.name}' is taken by the {other.kind} '{other.name}' in line {line}{same}"
            document.report((*entry.path, "name"), found)


def _check_references(document: Document, entries: list[_Entry]) -> None:
    by_name: dict[str, _Entry] = {}
    for entry in entries:
        if entry.name:
            by_name.setdefault(entry.name, entry)
    for entry in entries:
        earlier = tuple(e.name for e in entries if e.name and e.kind != "sink" and e.order < entry.order)
        for path, name in entry.inputs:
            target = by_name.get(name)
            if target is None:
                document.report(path, f"unknown step '{name}'", earlier, nearest(name, earlier))
            elif target.kind == "sink":
                document.report(path, f"'{name}' is a sink, which nothing can read from", earlier)
            elif target.order >= entry.order:
                document.report(path, _forward(entry, target, by_name), earlier)


def _forward(entry: _Entry, target: _Entry, by_name: dict[str, _Entry]) -> str:
    around = _way(target, entry, by_name, frozenset())
    if around:
        circle = " → ".join(f"'{name}'" for name in (entry.name, *around))
        return f"a cycle: {circle}" if len(around) > 1 else f"a cycle: '{entry.name}' reads from itself"
    return f"the step '{target.name}' comes later; steps read from earlier steps and sources"


def _way(start: _Entry, goal: _Entry, by_name: dict[str, _Entry], seen: frozenset[str]) -> tuple[str, ...]:
    """The names from `start` to `goal` along `from:`, or nothing."""
    if start is goal:
        return (goal.name,)
    for _, name in start.inputs:
        following = by_name.get(name)
        if following is not None and name not in seen:
            rest = _way(following, goal, by_name, seen | {name})
            if rest:
                return (start.name, *rest)
    return ()


def _check_inputs(document: Document) -> None:
    """A pipeline's sinks say what they write; without sources, the rows are those of somebody's own job."""
    root = document.root
    if "sources" not in root and "transforms" in root:
        document.report(("transforms",), "there are no sources to read from", ("with sources, or not at all",))
    sinks = root.get("sinks")
    for index, sink in enumerate(sinks if isinstance(sinks, Items) else ()):
        path: Path = ("sinks", index, "from")
        if not isinstance(sink, Section):
            continue
        if "sources" in root and sink.get("from") is None and path not in document.meant:
            document.report(path, "missing key 'from'")
        elif "sources" not in root and "from" in sink:
            document.report(path, "there are no sources and steps to take rows from", ("with sources, or not at all",))


def check_flow(document: Document, spec: Spec, columns: Mapping[str, Columns]) -> None:
    """Report a group of sinks without a root, and steps behind a root that keep state: only one checkpoint's rows pass.

    Called last, when nothing else in the spec is wrong. `columns`: of steps, as far as they are known.
    """
    if spec.sources and not spec.roots:
        _report_no_root(document, spec)
        return
    _check_targets(document, spec)
    _check_tables(document, spec)
    _check_dead_letter(document, spec)
    _check_rejecting(document, spec)
    _check_columns(document, spec, columns)
    _check_rules_are_read(document, spec)
    names = {step.name for step in spec.branches}
    for index, step in enumerate(spec.transforms):
        for key in (key for name, key in _OF_STATE.items() if step.name in names and name in step.model_fields_set):
            root = spec.root_of(step.name)
            found = f"'{step.name}' stands behind '{root}', where the flow divides, and can keep no state there"
            document.report(("transforms", index, key), found, (f"a step up to '{root}'",))


def _report_no_root(document: Document, spec: Spec) -> None:
    """Report the first group of sinks that read a common source, and share no source or step for all their rows."""
    names = [source.name for source in spec.sources]
    group = next(each for each in groups_of(spec.inputs, names, spec.wanted) if not trunk_of(spec.inputs, names, each))
    feeding = [name for name in names if any(name in sources_of(spec.inputs, names, each) for each in group)]
    index = max((at for at, sink in enumerate(spec.sinks) if sink.from_ in group), default=0)
    if not feeding:
        document.report(("sinks", index, "from"), f"no source feeds the rows of '{group[0]}'", tuple(names))
        return
    found = f"{_listed(group)} read sources together ({_listed(feeding)}), and have no source or step in common: "
    found += "a pipeline reads each source once"
    document.report(("sinks", index, "from"), found, ("a step that all of them read", "a pipeline for each"))


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _check_rules_are_read(document: Document, spec: Spec) -> None:
    """Report rules of a step that no sink reads: nothing computes the step, so its rules check nothing."""
    read = behind(spec.inputs, (), [sink.from_ for sink in spec.sinks if sink.from_ is not None])
    for index, step in enumerate(spec.transforms):
        if step.expect and step.name not in read:
            found = f"no sink reads the step '{step.name}', so its rules are never checked"
            document.report(("transforms", index, "expect"), found, ("with a sink that reads the step",))


def _check_columns(document: Document, spec: Spec, known: Mapping[str, Columns]) -> None:
    """Report columns of the rows that a sink names and that are not there, as far as the columns are known."""
    of_source = {source.name: source for source in spec.sources}
    for index, sink in enumerate(spec.sinks):
        columns = of_source[sink.from_].columns if sink.from_ in of_source else known.get(str(sink.from_))
        if columns is None:
            continue
        for path, name in sink.row_columns:
            if name not in columns:
                found = f"the rows of '{sink.from_}' have no column '{name}'"
                document.report(("sinks", index, *path), found, tuple(columns), nearest(name, columns))
        for path, reason in sink.column_problems(columns):
            document.report(("sinks", index, *path), f"the rows of '{sink.from_}' cannot be written: {reason}")


def _check_targets(document: Document, spec: Spec) -> None:
    """Two sinks of one table would wait for each other's locks, or write its rows twice."""
    first: dict[object, str] = {}
    for index, entry in enumerate(spec.sinks):
        other = first.setdefault(entry.target, entry.name)
        if other != entry.name:
            found = f"the sink '{other}' writes to this table, too"
            document.report(
                ("sinks", index, entry.target_key), found, ("one sink for each table; UNION ALL brings rows together",)
            )
    if spec.dead_letter is not None and spec.dead_letter.target in first:
        found = f"the sink '{first[spec.dead_letter.target]}' writes there, too"
        document.report(("dead_letter",), found, ("a table or topic of its own",))


def _check_tables(document: Document, spec: Spec) -> None:
    """Report sinks that could not get the rows of several tables, which a source gives, and never a step of Spark."""
    own = [source.name for source in spec.sources if source.describes_itself]
    unordered = {source.name: source.unordered_by for source in spec.sources}
    several = [sink for sink in spec.sinks if sink.has_several_tables]
    for index, sink in enumerate(spec.sinks):
        path: Path = ("sinks", index, sink.target_key)
        if sink.from_ in own and not sink.has_several_tables:
            found = f"each record of '{sink.from_}' brings its schema, and one table has one schema"
            document.report(path, found, ('table: "${topic}"', "a `schema` in the source's format"))
        elif several and not sink.has_several_tables:
            found = f"the sink '{several[0].name}' has several tables, and '{sink.name}' has one"
            document.report(path, found, ("another pipeline for this sink",))
    for index, sink in enumerate(spec.sinks):
        if not sink.has_several_tables:
            continue
        path = ("sinks", index, sink.target_key)
        if not spec.sources:
            found = "only a source of the spec has rows of several tables, and this spec has no source"
            document.report(path, found, ("`sources`, and `eos run`", "the name of one table"))
        elif spec.checkpoint.at_least_once:
            document.report(path, "several tables need a log", ("checkpoint.mode: exactly-once",))
        elif spec.transforms:
            found = "rows of several tables come from a source, without a step between"
            document.report(path, found, ("no `transforms`",))
        elif sink.needs_whole_splits and (key := unordered.get(str(sink.from_))):
            found = f"'{key}' of '{sink.from_}' gives rows of one key to several tasks, and either row may stay"
            document.report(("sinks", index, "commit"), found, (f"no `{key}`", "order_by: <column>"))
        elif sink.unroutable_to_letters and spec.dead_letter is None:
            found = "the spec lacks a `dead_letter` to write to"
            document.report(("sinks", index, "unroutable"), found, ("fail",))


def _check_rejecting(document: Document, spec: Spec) -> None:
    """Report a sink whose rejected rows a dead letter could not distinguish from the rejected rows of a step."""
    for index, sink in enumerate(spec.sinks):
        if sink.name.startswith(STEP) and any(step.rejects_rows for step in spec.transforms):
            found = f"'{sink.name}' is a sink's name, and dead letters of a step's rule have such a name as their sink"
            document.report(("sinks", index, "name"), found, (f"a name that does not begin with '{STEP}'",))


def _check_dead_letter(document: Document, spec: Spec) -> None:
    """Records can only be put aside where something takes them, and not to be read again at once."""
    for index, source in enumerate(spec.sources):
        path: Path = ("sources", index, "on_bad_record")
        if source.on_bad_record == "dead-letter" and spec.dead_letter is None:
            document.report(path, "there is no `dead_letter` to write to", ("fail", "skip"))
        entry = spec.dead_letter
        if entry is not None and source.reads_from(entry):
            key = entry.target_key
            found = f"the source '{source.name}' reads this {key}: a dead letter would come back as a record"
            document.report(("dead_letter", key), found, (f"a {key} that no source reads",))
    for index, step in enumerate(spec.transforms):
        for number, rule in enumerate(step.expect):
            if rule.action == DEAD_LETTER and spec.dead_letter is None:
                where: Path = ("transforms", index, "expect", number, "action")
                document.report(where, "the spec lacks a `dead_letter` to write to", ("warn", "skip", "fail"))
    if spec.dead_letter is not None and not spec.sources:
        found = "there are no sources whose records could be put aside"
        document.report(("dead_letter",), found, ("with sources, or not at all",))


def check_mode(document: Document) -> None:
    """Report sinks that cannot be written to at-least-once."""
    checkpoint, sinks = document.root.get("checkpoint"), document.root.get("sinks")
    if not isinstance(checkpoint, Section) or checkpoint.get("mode") != "at-least-once":
        return
    for index, sink in enumerate(sinks if isinstance(sinks, Items) else ()):
        reason = _reason(sink) if isinstance(sink, Section) else ""
        if reason:
            ways = ("checkpoint.mode: exactly-once", "a pipeline of its own for this sink", "a commit without a key")
            document.report(("sinks", index, "commit"), reason, ways)


def _reason(sink: Section) -> str:
    """Return why the entry cannot be written to at-least-once; empty if it can, or if its connector is not known."""
    try:
        model = plugins.load(plugins.SINKS, str(sink.get("connector")), SinkEntry)
    except plugins.PluginError:
        return ""
    default = model.model_fields["commit"].default if "commit" in model.model_fields else None
    return model.exactly_once_only.get(str(sink.get("commit") or default), "")
