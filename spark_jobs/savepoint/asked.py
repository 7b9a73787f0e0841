"""Savepoints that a running pipeline is asked for, through its requests: taken beside it, one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from connectors.spec import Spec
from spark_jobs.savepoint.take import take
from twophase.errors import ConnectorError
from twophase.requests import Answer, Request


class Savepoints:
    """Of one run. `reply`: told what became of a request, from a thread of this object's."""

    def __init__(self, spec: Spec, reply: Callable[[Request, Answer], None]) -> None:
        self._spec = spec
        self._reply = reply
        self._thread = ThreadPoolExecutor(1, "eos-savepoint")

    def begin(self, request: Request) -> None:
        """Handler of `savepoint`; does not block. `into`: a folder on this machine."""
        self._thread.submit(lambda: self._reply(request, self._taken(request)))

    def close(self) -> None:
        """Blocks until what was asked for is taken and answered."""
        self._thread.shutdown()

    def _taken(self, request: Request) -> Answer:
        into = request.arguments.get("into")
        try:
            taken = take(self._spec, Path(into) if into else None)
        except ConnectorError as error:
            return Answer.refused(error)
        number = taken.manifest.checkpoint_id
        facts = {"folder": str(taken.folder), "id": taken.manifest.id, "checkpoint_id": number}
        return Answer(ok=True, message=f"savepoint of checkpoint {number}", facts=facts)
