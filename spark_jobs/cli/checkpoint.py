"""`eos checkpoint`: begins a checkpoint of a running pipeline now, whatever its interval."""

from __future__ import annotations

from spark_jobs.cli.asking import ask_and_wait
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out


def checkpoint(spec: SpecPath, timeout: Timeout = 600.0, as_json: AsJson = False, debug: Debug = False) -> None:
    """Begin a checkpoint now, and wait until it is committed in every sink.

    The records that are there now become visible without waiting for `checkpoint.interval`; with
    `max_records_per_checkpoint` so many of them as one checkpoint takes. Says so at once if there is nothing to read.

    Without --timeout this waits for 10 minutes; the checkpoint goes on in any case.

    Exit code: 0 when it is committed, or there was nothing to read; 1 if the pipeline does not run, ended meanwhile, or
    has not committed it in time; 2 if the spec is wrong.

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
