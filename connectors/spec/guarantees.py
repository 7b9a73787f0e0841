"""The guarantees of a pipeline, sink by sink, in words, from the spec alone. `eos doctor` checks the needs."""

from __future__ import annotations

from dataclasses import replace

from connectors.api.entry import SinkEntry
from connectors.api.guarantee import AT_LEAST_ONCE, EXACTLY_ONCE, Guarantee
from connectors.spec.spec import Spec


def promise(spec: Spec) -> str:
    """Return the promise of the pipeline as a whole, in a line."""
    return AT_LEAST_ONCE if spec.checkpoint.at_least_once else EXACTLY_ONCE


def guarantees(spec: Spec) -> list[Guarantee]:
    """Return the guarantee of each sink, in the order of the spec. Secrets are masked."""
    return [_of_sink(spec, entry) for entry in spec.outputs]


def _of_sink(spec: Spec, entry: SinkEntry) -> Guarantee:
    """Return the entry's own guarantee, with the limits that dead letters and sources bring."""
    found = entry.guarantee(spec.context_of(entry))
    limits = list(found.limits)
    if entry is spec.dead_letter:
        limits.append(f"more than {spec.checkpoint.max_dead_letters:,} dead letters in a checkpoint stop the pipeline")
    else:
        if spec.dead_letter is not None:
            limits.append(_refused(spec))
        if entry.rejects_after_decision and not spec.checkpoint.at_least_once:
            limits.append(_found_late(spec, entry))
        limits += _of_sources(spec, entry)
    return replace(found, sink=spec.mask(entry.name), limits=tuple(limits))


def _refused(spec: Spec) -> str:
    if spec.checkpoint.at_least_once:
        return "a row that it refuses goes to dead_letter, at least once; other rows of its checkpoint may come twice"
    return "a row that it refuses before the decision goes to dead_letter"


def _found_late(spec: Spec, entry: SinkEntry) -> str:
    found = "a row that a constraint of the table refuses is found after the checkpoint is decided"
    if spec.refuses_into_letters(entry):
        return f"{found}: it goes to dead_letter in the transaction that applies the other rows"
    return f"{found}: the pipeline stops there until the table takes it"


def _of_sources(spec: Spec, entry: SinkEntry) -> list[str]:
    """Return the settings of the sink's sources that limit the promise "every record"."""
    limits: list[str] = []
    for source in spec.sources_of(entry):
        if source.on_bad_record == "skip":
            limits.append(
                "on_bad_record: skip: a record that does not decode is counted and left out, up to "
                f"checkpoint.max_skipped ({spec.checkpoint.max_skipped}) in a checkpoint"
            )
        if source.on_bad_record == "dead-letter":
            often = "at least once" if spec.checkpoint.at_least_once else "exactly once"
            limits.append(f"a record of {source.name} that does not decode goes to dead_letter instead, {often}")
        limits += source.limits()
    if spec.has_python_steps:
        limits.append("Python steps must give the same rows for the same records: a failed task runs them again")
    return limits
