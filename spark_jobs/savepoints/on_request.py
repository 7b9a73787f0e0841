"""Savepoints that a running pipeline is asked for, through its requests: taken beside it, one after another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.savepoints.take import Taken, take
from twophase.requests import Answer, Request

_log: Final = logging.getLogger("eos.savepoint")


class Savepoints:
    """Of one run. `reply`: told what became of a request, from a thread of this object's."""

    def __init__(self, spec: Spec, reply: Callable[[Request, Answer], None]) -> None:
        self._spec = spec
        self._reply = reply
        self._thread = ThreadPoolExecutor(1, "eos-savepoint")

    def begin(self, request: Request) -> None:
        """Handler of `savepoint`; does not block. `into`: a folder on this machine."""
        self._thread.submit(copy_context().run, self._taken, request).add_done_callback(
            lambda taken: self._answer(request, taken)
        )

    def close(self) -> None:
        """Blocks until what was asked for is taken and answered."""
        self._thread.shutdown()

    def _taken(self, request: Request) -> Taken:
        into = request.arguments.get("into")
        return take(self._spec, Path(into) if into else None)

    def _answer(self, request: Request, future: Future[Taken]) -> None:
        """Also where it ended by what nobody foresaw: who asked would wait for ever."""
        match future.exception():
            case None:
                taken = future.result()
                number = taken.manifest.checkpoint_id
                facts = {"folder": str(taken.folder), "id": taken.manifest.id, "checkpoint_id": number}
                self._reply(request, Answer(ok=True, message=f"savepoint of checkpoint {number}", facts=facts))
            case ConnectorError() as error:
                self._reply(request, Answer.refused(error))
            case unforeseen:
                _log.error("the savepoint that %s asked for failed", request.asked_by, exc_info=unforeseen)
                message = f"taking it failed: {unforeseen!r}"
                facts = {"remedy": "the log of the run says more; the pipeline goes on"}
                self._reply(request, Answer(ok=False, message=message, facts=facts))
