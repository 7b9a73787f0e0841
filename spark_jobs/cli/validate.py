"""`eos validate`: the plan and what it guarantees, from the spec alone."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.table import Table
from rich.tree import Tree

from connectors.extras import require
from connectors.spec import (
    Exposure,
    Guarantee,
    PythonStep,
    SinkEntry,
    SourceEntry,
    Spec,
    TransformStep,
    code_of,
    exposures,
    guarantees,
)
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.session.protection import gaps_of

_STDIN: Final = Path("-")


def validate(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check a spec without contacting a service, and print its plan and guarantees.

    Prints the plan (source, steps, sinks), and for each sink the guarantee, when rows become visible, the requirements
    on the server, and the limits of the guarantee. Reports connections that TLS does not protect, and everything that
    runs code: steps, and Spark's settings.

    SQL is checked for views that do not exist, misspelled keywords, and columns that neither a source nor a step has.
    A start also has Spark parse it, and refuses everything except a query.

    For a wrong spec, all mistakes are printed, each with file, line, path, the allowed values and the nearest name.

    `-` as the SPEC reads it from stdin.

    Exit code: 0 if the spec is right, 2 if it is wrong.

    Examples:

        eos validate orders.yaml

        eos validate orders.yaml --json

        envsubst < orders.yaml.in | eos validate -
    """
    loaded = out.load_stdin() if spec == _STDIN else out.load(spec)
    for extra in sorted(loaded.extras):
        require(extra)
    promises = guarantees(loaded)
    if as_json:
        facts = {**_facts(loaded), "guarantees": [asdict(promise) for promise in promises]}
        out.facts(
            {"ok": True, **facts, "exposed": [asdict(each) for each in _exposures(loaded)], "code": code_of(loaded)}
        )
    else:
        out.show(_tree(loaded), *(_table(promise) for promise in promises), *_exposed(loaded), *_code(loaded))


def _facts(spec: Spec) -> dict[str, object]:
    return {
        "pipeline": spec.pipeline,
        "location": spec.checkpoint.location,
        "head": str(spec.checkpoint.head) if spec.checkpoint.head else "files at the location",
        "interval_s": spec.checkpoint.interval_s,
        "mode": spec.checkpoint.mode,
        "sources": [{"name": s.name, "connector": s.connector, "reads": _source(s)} for s in spec.sources],
        "steps": [
            {"name": step.name, "does": _step(step), "expect": [rule.model_dump() for rule in step.expect]}
            for step in spec.transforms
        ],
        "trunk": spec.trunk,
        "roots": spec.roots,
        "sinks": [
            {"name": s.name, "connector": s.connector, "from": s.from_, "commit": s.commit, "writes": _sink(s)}
            for s in spec.sinks
        ],
        "dead_letter": _letter_facts(spec),
    }


def _tree(spec: Spec) -> Tree:
    """Source, steps and sinks in the order of the data."""
    checkpoint = spec.checkpoint
    words = f"{spec.pipeline}: {checkpoint.mode}, a checkpoint every {checkpoint.interval_s:g} s"
    tree = Tree(out.text(words, "bold"))
    tree.add(out.text(f"checkpoints at {checkpoint.location}"))
    flow = [(source.name, f"source {source.name}: {_source(source)}") for source in spec.sources]
    flow += [(step.name, f"step {step.name}: {_step(step)}") for step in spec.transforms]
    rules = {step.name: step.expect for step in spec.transforms}
    divides = {spec.root_of(step.name) for step in spec.branches}
    for name, text in flow:
        node = tree.add(out.text(text))
        for rule in rules.get(name, ()):
            most = f", at most {rule.max_failed}" if rule.max_failed is not None else ""
            node.add(out.text(f"expects {rule.name}: {' '.join(rule.condition.split())}, else {rule.action}{most}"))
        if name in divides:
            tree.add(out.text("here the flow divides: what follows is done to each checkpoint by itself", "italic"))
    for sink in spec.sinks:
        tree.add(out.text(f"sink {sink.name} from {sink.from_ or 'a job of your own'}: {_sink(sink)}"))
    if spec.dead_letter is not None:
        aside = [source.name for source in spec.sources if source.on_bad_record == "dead-letter"]
        words = (
            f"what does not decode of {', '.join(aside)}" if aside else "of none: no source has on_bad_record for it"
        )
        tree.add(out.text(f"dead letters, {words}: {_sink(spec.dead_letter)}"))
    return tree


def _letter_facts(spec: Spec) -> dict[str, object] | None:
    entry = spec.dead_letter
    if entry is None:
        return None
    facts = {"name": entry.name, "connector": entry.connector, "commit": entry.commit, "writes": _sink(entry)}
    return {**facts, "most_per_checkpoint": spec.checkpoint.max_dead_letters}


def _source(source: SourceEntry) -> str:
    return f"{source.connector} {source.where}"


def _step(step: TransformStep) -> str:
    if isinstance(step, PythonStep):
        return f"python {step.python} from {', '.join(step.from_)}"
    return f"sql {' '.join(step.sql.split())}"


def _sink(sink: SinkEntry) -> str:
    return f"{sink.connector} {sink.where}, {sink.commit}"


def _exposures(spec: Spec) -> list[Exposure]:
    """Connections of the spec, and Spark's own with the settings of this machine, whose start may be refused."""
    sparks = []
    for gap in gaps_of(spec, os.environ):
        accepted = gap.is_accepted(spec.spark)
        follows = f"accepted by spark.{gap.accepted_by}" if accepted else f"a start is refused: {gap.remedy}"
        sparks.append(Exposure("spark", f"{gap.what}; {follows}"))
    return [*exposures(spec), *sparks]


def _exposed(spec: Spec) -> list[Table]:
    """Nothing where all connections are protected, or stay on this machine."""
    found = _exposures(spec)
    if not found:
        return []
    title = out.text("What is not protected (docs/how-to/security.md)")
    table = Table(title=title, title_justify="left", show_header=False)
    for each in found:
        table.add_row(out.text(spec.mask(each.of), "bold"), out.text(each.what))
    return [table]


def _code(spec: Spec) -> list[Table]:
    """Nothing where all of it is data."""
    found = code_of(spec)
    if not found:
        return []
    title = "What runs code, with the rights of this user (docs/how-to/security.md)"
    table = Table(title=out.text(title), title_justify="left", show_header=False)
    for each in found:
        table.add_row(out.text(each))
    return [table]


def _table(promise: Guarantee) -> Table:
    table = Table(title=out.text(f"What holds for the sink {promise.sink}"), title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("guarantee", out.text(promise.promise))
    table.add_row("visible", out.text(promise.visible))
    for label, lines in (("needs", promise.needs), ("limits", promise.limits)):
        table.add_row(label, out.text("\n".join(f"- {line}" for line in lines)))
    return table
