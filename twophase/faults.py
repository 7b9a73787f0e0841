"""Named points at which a test may stop a process. In production a point costs one look at a module variable.

A test sets `EOS_FAULT_DIR` to a folder and puts `<point>.arm` into it; the first process that reaches the point
renames it to `<point>.reached`, writes its process id to `<point>.stopped` and waits. The test sees that file, kills
whatever it wants to kill, or lets it go on with `<point>.go`: no clock is involved. A file that names a checkpoint
(`<point>@3.arm`) is for that one only, and a file that also names a sink, by its `sink_key` (`<point>@3@<key>.arm`), is
for this sink's share of the checkpoint. A point of all sinks at once, as `before-decide`, knows no sink.
An armed file that contains the word `raise` makes the point raise instead of waiting: a task that fails once.

| point | where |
| --- | --- |
| `before-claim` | a start, a reset or another command has read head; the claim is not yet swapped |
| `planned` | Spark has planned a batch, and nothing of it is read |
| `reading` | a source task has read its first batch |
| `writing` | a writer has sent its first batch to the sink |
| `prepared` | a writer has prepared and not yet acknowledged |
| `written` | at-least-once: a writer has committed its rows and not yet acknowledged |
| `dead-letters` | every writer has acknowledged, and records were put aside: they are about to be read again |
| `before-decide` | every writer has acknowledged; head is not yet swapped |
| `after-decide` | head holds the decision; nothing is committed |
| `applying` | a slot of a log has an open transaction with its rows |
| `part-applied` | a slot has committed a first part of its rows, which are too many for one transaction |
| `between-commits` | one committable is committed, others are not |
| `after-commits` | everything is committed; head does not say so, Spark has not written `commits/N` |
| `before-repair` | what was lost is prepared again; head still names what is lost |
| `after-repair` | head names what was prepared again; nothing of it is committed |
| `listening` | head holds "committed up to N"; the user's listener is not yet called for N |
| `closed` | head says "committed up to N"; Spark has not written `commits/N` |
| `state-sent` | the files of a state are in the object store, and its manifest is not |
| `state-kept` | the manifest of a state is in the object store; older objects are not yet deleted |
| `savepoint-pinned` | all of a checkpoint is pinned and nothing is copied |
| `savepoint-copied` | a savepoint is whole but for its manifest |
| `savepoint-written` | a savepoint has its manifest, and nothing was reported |
| `savepoint-downloaded` | a savepoint in a store was read and verified, and nothing else was done |
| `trial-run` | the trial of a start from a savepoint has run; the incarnation and the sinks are as before |
| `state-widened` | the state of a start from a savepoint is rewritten for wider types, beside Spark's folder |
| `job-filled` | Spark's folder of a restored job is filled under another name; head is as before |
| `job-restored` | head holds the incarnation of a restored job; Spark's folder does not have its name yet |
| `before-restore` | Spark's folder of a life from a savepoint is there; what the old life had prepared is ended |
| `after-restore` | head holds that life; sinks are still claimed by the one before |
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

POINTS: Final = (
    "before-claim",
    "planned",
    "reading",
    "writing",
    "prepared",
    "written",
    "dead-letters",
    "before-decide",
    "after-decide",
    "applying",
    "part-applied",
    "between-commits",
    "after-commits",
    "before-repair",
    "after-repair",
    "listening",
    "closed",
    "state-sent",
    "state-kept",
    "savepoint-pinned",
    "savepoint-copied",
    "savepoint-written",
    "savepoint-downloaded",
    "trial-run",
    "state-widened",
    "job-filled",
    "job-restored",
    "before-restore",
    "after-restore",
)

_FOLDER: Final = os.environ.get("EOS_FAULT_DIR")


class InjectedFaultError(RuntimeError):
    """Raised by a point that a test armed with `raise`."""


def point(name: str, checkpoint_id: int | None = None, sink: str = "") -> None:
    """Stop here if a test asked for it. Called on the hot path once per batch at the most.

    `sink`: the `sink_key` of the sink whose code reaches the point; empty for code that serves all sinks.
    """
    if _FOLDER is not None:
        _stop(Path(_FOLDER), name, checkpoint_id, sink)


def _stop(folder: Path, name: str, checkpoint_id: int | None, sink: str) -> None:
    for stem in (name, f"{name}@{checkpoint_id}", f"{name}@{checkpoint_id}@{sink}"):
        armed, reached = folder / f"{stem}.arm", folder / f"{stem}.reached"
        try:
            raising = "raise" in armed.read_text()
            armed.rename(reached)  # atomic: only one process gets past this line
        except FileNotFoundError:
            continue
        partial = folder / f"{stem}.pid"
        partial.write_text(str(os.getpid()))
        partial.rename(folder / f"{stem}.stopped")
        if raising:
            message = f"fault injected at {stem}"
            raise InjectedFaultError(message)
        while not (folder / f"{stem}.go").exists():
            time.sleep(0.01)
