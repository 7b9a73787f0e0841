"""The commands `eos pause` and `eos resume`."""

from __future__ import annotations

from connectors.registry import open_requests
from connectors.spec import Spec
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out
from spark_jobs.cli.requests import NotRunningError, RefusedError, ask_and_wait, asker
from spark_jobs.observe.head_reader import read_pause
from spark_jobs.observe.run_lock import running
from twophase.requests import Answer


def pause(spec: SpecPath, timeout: Timeout = 600.0, as_json: AsJson = False, debug: Debug = False) -> None:
    """Pause a pipeline: it finishes its checkpoint and takes no other one, until `eos resume`.

    The process keeps running and keeps its claim. The pause is stored beside the pipeline's head, so each later start
    is paused too. A pipeline that does not run starts paused.

    The default timeout is 10 minutes. The pause remains after a timeout, and if the process ends or refuses it.

    Exit code: 0 if no checkpoint runs; 1 if the running checkpoint has not ended in time, or the process has ended; 2
    if the spec is wrong.

    Examples:

        eos pause orders.yaml

        eos pause orders.yaml --timeout 1min --json
    """
    loaded = out.load(spec)
    with open_requests(loaded) as channel:
        channel.pause(asker())
    answer = None
    if _may_run(loaded):
        try:
            answer = ask_and_wait(loaded, "pause", {}, timeout, f"pausing {loaded.pipeline}")
        except (NotRunningError, RefusedError) as error:
            if read_pause(loaded) is None:  # a resume has deleted the wish meanwhile
                raise
            remedy = f"the next start of {loaded.pipeline} is paused; `eos resume` undoes it"
            raise type(error)(error.message, remedy=remedy) from None
    words = "is paused" if answer is not None else "does not run; its next start is paused"
    _show(loaded, "paused", answer, words, as_json=as_json)


def resume(spec: SpecPath, timeout: Timeout = 600.0, as_json: AsJson = False, debug: Debug = False) -> None:
    """Let a paused pipeline take checkpoints.

    A pipeline that does not run takes checkpoints after its next start.

    Exit code: 0 if it is not paused; 1 if its process does not answer in time; 2 if the spec is wrong.

    Examples:

        eos resume orders.yaml
    """
    loaded = out.load(spec)
    with open_requests(loaded) as channel:
        channel.resume()
    answer = ask_and_wait(loaded, "resume", {}, timeout, f"resuming {loaded.pipeline}") if _may_run(loaded) else None
    _show(loaded, "resumed", answer, "is not paused", as_json=as_json)


def _may_run(spec: Spec) -> bool:
    """Whether a process on this machine runs it, or another machine may, which sees the same head."""
    return running(spec) is not None or spec.checkpoint.is_shared


def _show(spec: Spec, name: str, answer: Answer | None, words: str, *, as_json: bool) -> None:
    if as_json:
        facts = answer.facts if answer is not None else {}
        out.facts({"ok": True, "pipeline": spec.pipeline, name: True, "running": answer is not None, **facts})
    else:
        out.show(out.text(f"{spec.pipeline} {words}."))
