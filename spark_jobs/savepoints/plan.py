"""What a query is made of, under the names of its spec: sources in Spark's order, and the operators that keep state.

Spark numbers both by where they stand in the query. A savepoint keeps their names, so that a spec may change around
them. Each query writes its plan beside its checkpoint with its first batch: before that, the state is another one's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from connectors.api.entry import SinkEntry
from connectors.spec import PythonStep, Spec
from connectors.spec.steps import TransformStep
from twophase.codec import check_readable
from twophase.documents import Documents

_T = TypeVar("_T")
_log: Final = logging.getLogger("eos.savepoint")

FORMAT: Final = 1
"""Of the file of a plan. A file without a number has format 1."""

Described = Mapping[str, Mapping[str, str]]
"""By name: what the spec says of it, as far as a change of it matters."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator that keeps state."""

    step: str  # whose it is
    kind: str  # as Spark's logical plan calls it
    state: str  # types of its keys and of what it keeps, as far as the plan tells: other ones are other state

    @property
    def named(self) -> str:
        """For messages."""
        return f"{self.step} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Plan:
    """One query."""

    sources: tuple[str, ...] = ()  # in Spark's order
    operators: tuple[Operator, ...] = ()  # by Spark's number
    described: Mapping[str, Described] = field(default_factory=dict)  # `sources`, `transforms`, `sinks`
    spec: str = ""  # its text, with references as they are written and what else is secret masked

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sources": list(self.sources),
            "operators": [{"step": o.step, "kind": o.kind, "state": o.state} for o in self.operators],
            "described": {kind: {name: dict(each) for name, each in d.items()} for kind, d in self.described.items()},
            "spec": self.spec,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """The inverse. Raises KeyError, TypeError or AttributeError for anything else."""
        operators = tuple(Operator(**each) for each in document["operators"])
        described = {
            kind: {name: dict(each.items()) for name, each in d.items()} for kind, d in document["described"].items()
        }
        texts = [text for d in described.values() for each in d.values() for text in each.values()]
        texts += [text for each in operators for text in (each.step, each.kind, each.state)]
        if not all(isinstance(text, str) for text in (*texts, *document["sources"], document["spec"])):
            raise TypeError(texts)
        return cls(tuple(document["sources"]), operators, described, document["spec"])


def describe(spec: Spec) -> dict[str, Described]:
    """What a spec says of its sources, steps and sinks. No secret is in it."""
    said = {
        "sources": {each.name: dict(each.description) for each in spec.sources},
        "transforms": {each.name: _step(each) for each in spec.transforms},
        "sinks": {each.name: _sink(each) for each in spec.outputs},
    }
    return {kind: {name: _shown(spec, each) for name, each in of_kind.items()} for kind, of_kind in said.items()}


def keep(documents: Documents, incarnation: str, plan: Plan) -> None:
    """Write the plan of the query that made the state there is: once Spark has taken it. Raises HeadError."""
    document = {"format": FORMAT, **plan.to_json()}
    documents.replace(_name(incarnation), json.dumps(document, ensure_ascii=False, indent=1).encode())


def kept(documents: Documents, incarnation: str) -> Plan | None:
    """The plan of the newest query of this life that has done a batch; None: no names are known, as of older versions.

    Raises HeadError where it cannot be read, HeadFormatError where a newer version wrote it.
    """
    return decoded(documents, _name(incarnation), FORMAT, Plan.from_json, "no names of steps are known")


def decoded(documents: Documents, name: str, newest: int, decode: Callable[[Any], _T], without: str) -> _T | None:
    """Return a stored JSON document as `decode` has it; None if it is missing, or damaged, which is logged.

    `newest`: the newest format that this version reads. `without`: the consequence of a damaged document, for the log.

    Raises HeadError where it cannot be read, HeadFormatError where a newer version wrote it.
    """
    content, place = documents.read(name), documents.place(name)
    if content is None:
        return None
    try:
        document = json.loads(content)
        check_readable({"format": 1, **document}, place, newest)
        return decode(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _log.warning("%s is damaged, so %s: %r", place, without, error)
        return None


def _name(incarnation: str) -> str:
    return f"plans/{incarnation}.json"


def _step(step: TransformStep) -> dict[str, str]:
    made = f"{step.python} of {', '.join(step.from_)}" if isinstance(step, PythonStep) else step.sql
    options = json.dumps(step.options, sort_keys=True) if isinstance(step, PythonStep) and step.options else ""
    late = f"{step.watermark.column}, {step.watermark.delay_s:g} s" if step.watermark is not None else ""
    return {"made by": made, "options": options, "watermark": late, "output_mode": step.output_mode}


def _sink(entry: SinkEntry) -> dict[str, str]:
    own = {"connector": entry.connector, "from": entry.from_ or "", "commit": entry.commit}
    return {**own, **entry.description}


def _shown(spec: Spec, said: Mapping[str, str]) -> dict[str, str]:
    return {key: " ".join(spec.mask(text).split()) for key, text in said.items()}


def names(operators: Iterable[Operator]) -> str:
    """For messages."""
    return ", ".join(each.named for each in operators)
