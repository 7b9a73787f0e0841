"""`eos checkpoint`: begins a checkpoint of a running pipeline now, whatever its interval."""

from __future__ import annotations

from spark_jobs.cli.asking import ask_and_wait
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out


def checkpoint(spec: SpecPath, timeout: Timeout = 600.0, as_json: AsJson = False, debug: Debug = False) -> None:
    """Trigger a checkpoint and wait until it is committed in every sink.

    The available records become visible without waiting for `checkpoint.interval`. With `max_records_per_checkpoint`,
    one checkpoint takes at most that many. If there is nothing to read, the command returns immediately.

    The default timeout is 10 minutes. The checkpoint continues after a timeout.

    Exit code: 0 if it is committed, or there was nothing to read; 1 if the pipeline does not run, ended, or has not
    committed it in time; 2 if the spec is wrong.

    Examples:

        eos checkpoint orders.yaml

        eos checkpoint orders.yaml --timeout 30s --json
    """
    loaded = out.load(spec)
    answer = ask_and_wait(loaded, "checkpoint", {}, timeout, f"a checkpoint of {loaded.pipeline}")
    if as_json:
        out.facts({"ok": True, "pipeline": loaded.pipeline, **answer.facts})
        return
    records, rows = answer.facts["records"], answer.facts["rows"]
    counts = f": {records:,} records, {rows:,} rows" if answer.facts["checkpoint_id"] is not None else ""
    out.show(out.text(f"{loaded.pipeline}: {answer.message}{counts}."))
