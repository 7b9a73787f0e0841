"""The part of the API that reads: from the history and head, and from the sinks only where that is asked for."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Path, Query, Request
from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from connectors.api.masking import MASK, is_secret_name
from connectors.spec import Spec
from spark_jobs.page import facts, schemas, state
from spark_jobs.page import graph as graphs
from spark_jobs.page.auth import Quoted
from spark_jobs.page.masked import Mask
from spark_jobs.page.selection import ERRORS, OF_ONE, PREFIX, Chosen, all_of

router: Final = APIRouter(responses=ERRORS)

_KINDS: Final = ("failure", "restart", "fenced", "reset", "repair", "gap", "mended", "away", "joined")
_WIDTHS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800)
_LONGEST_S: Final = 366 * 86400.0
_MOST_BUCKETS: Final = 500

Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=0, lt=2**62, description="`before` of the answer with the newer ones")]
_FIRST: Final = ("version", "pipeline", "name", "connector", "type", "strategy", "from")  # what an entry is


@router.get(f"{PREFIX}/pipelines")
def pipelines(request: Request) -> schemas.Pipelines:
    """All that are served here."""
    names = [state.name_of(each) for each in all_of(request).values()]
    return schemas.Pipelines(pipelines=names, version=request.app.version)


@router.get(OF_ONE)
def pipeline(chosen: Chosen) -> schemas.Overview:
    """Return the overview of a pipeline."""
    return facts.overview(chosen)


@router.get(f"{OF_ONE}/checkpoints")
def checkpoints(chosen: Chosen, limit: Limit = 50, before: Before = None) -> schemas.Checkpoints:
    """Completed checkpoints, newest first."""
    found = chosen.history.checkpoints(limit + 1, before)
    shown = [schemas.Checkpoint.model_validate(each) for each in found[:limit]]
    return schemas.Checkpoints(checkpoints=shown, before=shown[-1].seq if len(found) > limit else None)


@router.get(f"{OF_ONE}/checkpoints/summary")
def summary(chosen: Chosen, newest: Annotated[int, Query(ge=1, le=5000)] = 1000) -> schemas.Summary:
    """Figures over the newest so many checkpoints."""
    return schemas.Summary.model_validate(chosen.history.summary(newest))


@router.get(f"{OF_ONE}/checkpoints/{{checkpoint_id}}")
def checkpoint(
    chosen: Chosen,
    checkpoint_id: Annotated[int, Path(ge=0, lt=2**40)],
    incarnation: Annotated[
        str | None, Query(max_length=64, description="incarnation of the checkpoint, if not the newest")
    ] = None,
    *,
    quoted: Quoted,
) -> schemas.Detail:
    """One, with every writer's acknowledgement and every sink's commit."""
    found = chosen.history.checkpoint(checkpoint_id, incarnation)
    if found is None:
        raise HTTPException(404, f"checkpoint {checkpoint_id} is not in the history (any more)")
    return facts.detail(found, quoted)


@router.get(f"{OF_ONE}/series")
def series(
    chosen: Chosen,
    metric: Annotated[list[schemas.Metric], Query(min_length=1, max_length=4)],
    since: Annotated[
        float | None, Query(ge=0, le=2**40, description="seconds since 1970; without it 15 minutes ago")
    ] = None,
    until: Annotated[float | None, Query(ge=0, le=2**40, description="without it now")] = None,
    buckets: Annotated[int, Query(ge=1, le=_MOST_BUCKETS, description="at most so many, of a round width")] = 90,
) -> schemas.Series:
    """Return charts over time. The last bucket may be under way: its rates are per second that has passed."""
    until = time.time() if until is None else until
    since = until - 900.0 if since is None else max(since, until - _LONGEST_S)
    span_s = max(until - since, 1.0)
    width_s = next((each for each in _WIDTHS_S if each * buckets >= span_s), _WIDTHS_S[-1])
    found = chosen.history.series(since // width_s * width_s, until, width_s)[-buckets:]
    return facts.series(found, metric, found[0].at if found else since, width_s, until)


@router.get(f"{OF_ONE}/graph")
def graph(chosen: Chosen) -> schemas.Graph:
    """Return sources, steps and sinks, with the rows of the newest checkpoint between them."""
    return graphs.graph(chosen)


@router.get(f"{OF_ONE}/sinks")
def sinks(chosen: Chosen) -> schemas.Sinks:
    """Each sink, and how far it is behind. Asks none of them."""
    return facts.sinks(chosen)


@router.get(f"{OF_ONE}/transactions", responses={429: {"model": schemas.Refused, "description": "Ask again later."}})
def transactions(chosen: Chosen) -> schemas.Transactions:
    """What sinks hold prepared, and what becomes of it. Connects to every sink; what they said holds for 10 seconds."""
    asked_at, found = chosen.prepared()
    return schemas.Transactions(asked_at=asked_at, transactions=[facts.transaction(each) for each in found])


@router.get(f"{OF_ONE}/failures")
def failures(chosen: Chosen, quoted: Quoted, limit: Limit = 50, before: Before = None) -> schemas.Events:
    """Failures, restarts, aborted attempts, killed runs and other incidents, newest first.

    A message may quote a record: it is there with the token that steers.
    """
    found = chosen.history.events(limit + 1, before, _KINDS)
    shown = [schemas.Event.model_validate(replace(each, message=quoted(each.message))) for each in found[:limit]]
    aborted = facts.aborted(chosen.history.aborted(limit), quoted)
    killed = facts.killed(chosen, limit)
    before = shown[-1].seq if len(found) > limit else None
    return schemas.Events(events=shown, before=before, aborted=aborted, killed=killed)


@router.get(f"{OF_ONE}/spec")
def spec(chosen: Chosen) -> schemas.SpecText:
    """The spec with every default filled in, without secrets."""
    return schemas.SpecText(text=effective(chosen.spec))


@router.get(f"{OF_ONE}/runs")
def runs(chosen: Chosen, limit: Limit = 20) -> schemas.Runs:
    """Processes that ran it, newest first."""
    return schemas.Runs(runs=[schemas.Run.model_validate(each) for each in chosen.history.runs(limit)])


def effective(spec: Spec) -> str:
    """Made of the values and not of the file, where comments, or another way to write a text, could hide a secret."""
    out = io.StringIO()
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    yaml.dump(_plain(spec, spec.mask), out)
    return out.getvalue()


def _plain(value: Any, mask: Mask) -> Any:
    """As it would be written; what is empty is left out."""
    match value:
        case BaseModel():
            fields = type(value).model_fields
            found = {field.alias or name: _field(name, getattr(value, name), mask) for name, field in fields.items()}
            found |= {key: MASK for key, each in found.items() if each is not None and is_secret_name(key)}
            ordered = sorted(found, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
            return {key: found[key] for key in ordered if found[key] not in (None, [], {})}
        case dict():
            return {
                mask(str(key)): MASK if is_secret_name(str(key)) else _plain(each, mask) for key, each in value.items()
            }
        case list() | tuple():
            return [_plain(each, mask) for each in value]
        case bool() | None:
            return value
        case int() | float():
            return value if mask(str(value)) == str(value) else MASK
        case _:
            text = mask(str(value))
            return LiteralScalarString(text) if "\n" in text else text


def _field(name: str, value: Any, mask: Mask) -> Any:
    """Its unit stands in its name, and in the spec behind the number."""
    if isinstance(value, (int, float)) and name.endswith("_s"):
        return f"{value:g}s"
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"{value}B"
    return _plain(value, mask)
