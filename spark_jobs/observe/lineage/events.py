"""The events of OpenLineage about a run, built with the classes of its client. Pure.

Source: https://openlineage.io/docs/spec/object-model and the facets' pages beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.base import DatasetFacet, JobFacet, OutputDatasetFacet, RunFacet
from openlineage.client.generated.column_lineage_dataset import ColumnLineageDatasetFacet, Fields, InputField
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.sql_job import SQLJobFacet

from connectors.api.entry import Entry, SinkEntry
from connectors.spec import Spec, SqlStep
from connectors.spec.sql_origins import Origins, Types, origins
from twophase.version import installed_version

PRODUCER: Final = "https://pypi.org/project/eos-spark/"


@dataclass(frozen=True, slots=True)
class Written:
    """What a run has written to one sink."""

    rows: int = 0
    bytes: int = 0

    def plus(self, rows: int, size: int) -> Written:
        """Return the sum."""
        return Written(self.rows + rows, self.bytes + size)


State = Literal["START", "RUNNING", "COMPLETE", "FAIL"]


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of a run at one moment."""

    state: State
    at: str  # ISO 8601, with a time zone
    sources: Mapping[str, Types] = field(default_factory=dict)  # columns by name; empty before the query is built
    sinks: Mapping[str, Types] = field(default_factory=dict)
    written: Mapping[str, Written] = field(default_factory=dict)  # by sink
    error: str = ""  # without secrets


def event(spec: Spec, run_id: str, namespace: str, moment: Moment) -> RunEvent:
    """Return the event. `run_id`: a UUID; `namespace`: of the job."""
    known = origins(spec, moment.sources)
    of_run: dict[str, RunFacet] = {"processing_engine": ProcessingEngineRunFacet(installed_version(), "eos")}
    if moment.error:
        of_run["errorMessage"] = ErrorMessageRunFacet(moment.error, "PYTHON")
    outputs = [
        each
        for entry in spec.outputs
        for each in _outputs(spec, entry, moment, known.get(entry.from_) if entry.from_ is not None else None)
    ]
    return RunEvent(
        eventTime=moment.at,
        producer=PRODUCER,
        run=Run(run_id, of_run),
        job=Job(namespace, spec.mask(spec.pipeline), _of_job(spec)),
        eventType=RunState[moment.state],
        inputs=[
            InputDataset(*each, facets=_schema(moment.sources.get(entry.name, {})))
            for entry in spec.sources
            for each in _names(spec, entry)
        ],
        outputs=outputs,
    )


def _of_job(spec: Spec) -> dict[str, JobFacet]:
    facets: dict[str, JobFacet] = {"jobType": JobTypeJobFacet("STREAMING", "EOS", "PIPELINE")}
    if texts := [f"-- {step.name}\n{step.sql}" for step in spec.transforms if isinstance(step, SqlStep)]:
        facets["sql"] = SQLJobFacet(spec.mask("\n\n".join(texts)), dialect="spark")
    return facets


def _outputs(spec: Spec, entry: SinkEntry, moment: Moment, known: Origins) -> Iterator[OutputDataset]:
    types = moment.sinks.get(entry.name, {})
    facets = _schema(types)
    if known is not None and types:
        fields = {name: _fields(spec, known.get(name.casefold(), frozenset())) for name in types}
        facets["columnLineage"] = ColumnLineageDatasetFacet(fields)
    of_output: dict[str, OutputDatasetFacet] = {}
    if (written := moment.written.get(entry.name)) is not None:
        of_output["outputStatistics"] = OutputStatisticsOutputDatasetFacet(written.rows, written.bytes)
    for each in _names(spec, entry):
        yield OutputDataset(*each, facets=facets, outputFacets=of_output)


def _names(spec: Spec, entry: Entry) -> list[tuple[str, str]]:
    return [(spec.mask(namespace), spec.mask(name)) for namespace, name in entry.datasets]


def _schema(types: Types) -> dict[str, DatasetFacet]:
    if not types:
        return {}
    fields = [SchemaDatasetFacetFields(name, kind) for name, kind in types.items()]
    return {"schema": SchemaDatasetFacet(fields)}


def _fields(spec: Spec, found: frozenset[tuple[str, str]]) -> Fields:
    """Return the columns of data sets from which a column is computed."""
    entries = {entry.name: entry for entry in spec.sources}
    return Fields(
        [InputField(*each, column) for source, column in sorted(found) for each in _names(spec, entries[source])]
    )
