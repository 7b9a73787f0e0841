"""Sections of the error catalogue: what each code means, its usual causes, and remedies.

`eos explain CODE` prints a section, and docs/reference/errors.md has all of them. A message names the exact cause; a
section describes the state of the pipeline. A code belongs to a class of errors (`eos.errors`), or to a
situation without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

UNEXPECTED: Final = "EOS-UNEXPECTED"
"""The code of an error that the framework did not foresee."""


class Section(NamedTuple):
    """The section of one code."""

    meaning: str
    """What the error means for the pipeline."""
    causes: tuple[tuple[str, str], ...]
    """Usual causes, each with its remedy."""


_STATE_SAFE: Final = "The guarantee of the pipeline holds."
_NEW_DATA: Final = (
    "To start with the present records on purpose, run `eos reset --to`, which first reports the consequences."
)

CATALOGUE: Final[Mapping[str, Section]] = {
    "EOS-ERROR": Section(
        "An error without a code. A connector of another distribution may raise it.",
        (("Named in the message.", "Follow the remedy below the message."),),
    ),
    UNEXPECTED: Section(
        "The framework, a library or a plugin failed in a way that was not foreseen.",
        (
            (
                "A defect, or a version of a library that does not fit.",
                "Repeat the command with `--debug` and report the output. It shows no secret of the spec.",
            ),
        ),
    ),
    "EOS-SPEC": Section(
        "The spec, an option or an argument is wrong. Nothing was started.",
        (
            (
                "A key, a value or a reference of the spec is wrong.",
                "Correct the line that the message names. `eos validate SPEC` lists all mistakes at once.",
            ),
            (
                "Options of the command do not fit together.",
                "`eos COMMAND --help` describes them, with examples.",
            ),
            (
                "A step is not accepted by Spark, or is not allowed where it is.",
                "`eos preview SPEC` runs the steps on a few records without writing.",
            ),
        ),
    ),
    "EOS-PLUGIN": Section(
        "A connector, format, secret or kind of database cannot be loaded. Nothing was started.",
        (
            (
                "Its distribution is not installed, or only in another environment.",
                "Install it beside `eos-spark`. `eos connectors` lists the installed plugins.",
            ),
            (
                "Its module raises an error, or it implements another version of the interface.",
                "`eos connectors` shows the error. Update the distribution.",
            ),
        ),
    ),
    "EOS-SOURCE": Section(
        f"A read from a source failed. A restart re-reads the same records. {_STATE_SAFE}",
        (
            (
                "The service does not answer in time, or is overloaded.",
                "Check that the service runs and that its advertised address can be reached from the driver and the "
                "workers. `eos doctor SPEC` tries the connection.",
            ),
            ("The log shrank while it was read.", "Nothing: the restart compares the positions with the log."),
        ),
    ),
    "EOS-OFFSET-OUT-OF-RANGE": Section(
        "Records of a planned range no longer exist, so the next rows would not follow the last ones. The pipeline "
        "stops.",
        (
            (
                "The topic's retention removed records before the pipeline read them.",
                f"Lengthen `retention.ms`. {_NEW_DATA}",
            ),
            ("The topic was recreated, or its log was set back.", _NEW_DATA),
            (
                "`starting_offsets` names an offset that does not exist.",
                "Correct it. The message names the offsets that exist.",
            ),
        ),
    ),
    "EOS-UNKNOWN-TOPIC": Section(
        "A topic, or one of its partitions, does not exist. Waiting does not create it.",
        (
            ("The name is misspelt, or belongs to another cluster.", "Correct `topics` or `bootstrap_servers`."),
            ("The topic was not created yet.", "Create it, then start the pipeline."),
        ),
    ),
    "EOS-SOURCE-ACCESS": Section(
        "The source's service refuses the login or a right. A restart does not help.",
        (
            ("User name, password, token or certificate is wrong or has expired.", "Correct `security` of the source."),
            (
                "The user may not read the topic or use the consumer group.",
                "Grant the right that the message names. docs/how-to/security.md lists the rights.",
            ),
        ),
    ),
    "EOS-BAD-RECORD": Section(
        "A record does not decode, and the source has `on_bad_record: fail`. The checkpoint is aborted, and the "
        "pipeline stops.",
        (
            (
                "The record is not of the format or schema of the spec.",
                "Correct `format`, or the producer. The message names topic, partition, offset and the place in the "
                "record.",
            ),
            (
                "Such records are expected.",
                "Give the spec a `dead_letter`, which keeps them, or write `on_bad_record: skip`, which counts them.",
            ),
        ),
    ),
    "EOS-SINK": Section(
        "A sink cannot take the rows. Other codes name the usual reasons. A restart does not help.",
        (
            (
                "The service refused a statement.",
                "Look up the number of the message in the service's manual. `eos doctor SPEC` compares the settings.",
            ),
        ),
    ),
    "EOS-TARGET": Section(
        "The target table or topic is missing, or does not fit the rows. No record was read.",
        (
            (
                "The table or topic does not exist.",
                "Create it, or write `create: if-missing`. `eos doctor SPEC` shows the statement.",
            ),
            (
                "Columns are missing or have types that cannot hold the rows.",
                "Change the table, rename by `columns`, convert with CAST in the last step, or write "
                "`evolve: add-columns` or `add-and-widen`.",
            ),
            (
                "The server lacks a setting that exactly-once needs.",
                "Change the setting that the message names, or choose another `commit`.",
            ),
        ),
    ),
    "EOS-EXPECTATION": Section(
        "Rows of a checkpoint fail a rule of a step (`expect`). The checkpoint is not decided, and the pipeline stops.",
        (
            (
                "A rule has `action: fail`, or more rows fail it than `max_failed` allows.",
                "Correct the records or the step. `eos preview` shows rows. The message names step, rule and number.",
            ),
            (
                "Such rows are expected.",
                "Give the rule another action (`warn`, `skip` or `dead-letter`), or a higher `max_failed`.",
            ),
        ),
    ),
    "EOS-BAD-ROW": Section(
        "The sink refused a row because of its values. The checkpoint is aborted and the pipeline stops.",
        (
            (
                "A value is too long, out of range, NULL, or repeats a key.",
                "Correct the row in a step, or change the column. The message names row and column.",
            ),
            (
                "Such rows are expected.",
                "Give the spec a `dead_letter`: refused rows are kept there, and the others are written.",
            ),
        ),
    ),
    "EOS-INCOMPARABLE-ROWS": Section(
        "Several rows of one checkpoint have the same key, and no column orders them.",
        (
            (
                "The rows lack `_offset` and `_partition` of the source, or are of several topics without `_topic`.",
                "Let the last step select these columns as they are.",
            ),
            (
                "A step joins or aggregates, so several rows have one position.",
                "Select one row for each key in a step.",
            ),
        ),
    ),
    "EOS-TOO-MANY-BAD-ROWS": Section(
        "More rows of a checkpoint were refused than may become dead letters. That is a wrong schema or target rather "
        "than an exception.",
        (
            ("Nearly all rows are refused.", "Correct the steps or the target."),
            ("So many are expected.", "Raise `checkpoint.max_dead_letters`."),
        ),
    ),
    "EOS-PREPARE": Section(
        f"A checkpoint could not be written. It is aborted, and a restart re-runs it. {_STATE_SAFE}",
        (
            (
                "A task failed: the code of a step, Spark, or a worker.",
                "Read the error that the message quotes. `--debug` shows Spark's whole report.",
            ),
            (
                "A task found no room for its temporary file or its log.",
                "Free space, or lower `checkpoint.max_records_per_checkpoint`.",
            ),
            (
                "The checkpoint was longer than `checkpoint.timeout`.",
                "Raise it, or lower `checkpoint.max_records_per_checkpoint`.",
            ),
        ),
    ),
    "EOS-SINK-UNAVAILABLE": Section(
        f"The service behind a sink does not answer. The pipeline retries according to `restart`. {_STATE_SAFE}",
        (
            (
                "The service is down, restarts, or is cut off by the network or a proxy.",
                "Check that it can be reached from the driver and the workers. With `max_backlog` a sink with a log "
                "may be away for a while.",
            ),
            ("A deadlock, or a limit of connections.", "`eos doctor SPEC` compares the limits with the need."),
            ("Another driver works on the same sink.", "See that a single driver runs. `eos status SPEC` shows it."),
        ),
    ),
    "EOS-ROW-LOCKED": Section(
        f"Another transaction held a row or a key for too long. The checkpoint is re-run. {_STATE_SAFE}",
        (
            (
                "Another program has an open transaction on the table.",
                "End it. `eos transactions list SPEC` shows the transactions of this framework.",
            ),
            (
                "Several tasks write rows of the same key.",
                "Use `commit: upsert`, or distribute the rows by the key in a step.",
            ),
        ),
    ),
    "EOS-SPARK-UNAVAILABLE": Section(
        f"Spark did not start, its JVM ended, or a worker lacks a package. {_STATE_SAFE}",
        (
            ("Java is missing, or older than 17.", "Install Java 17 or newer, or set JAVA_HOME."),
            (
                "The JVM ended: out of memory, or killed.",
                "Read `spark.log` and `spark.stderr.log` at the checkpoint location. Raise `spark.driver.memory`, or "
                "lower `checkpoint.max_records_per_checkpoint`.",
            ),
            (
                "The store or HDFS with the Spark checkpoint of a job does not answer, or refuses the credentials.",
                "Correct the settings of the session; the next start repeats the batch.",
            ),
            (
                "A worker has another Python, or lacks a package.",
                "Install it for the Python that PYSPARK_PYTHON names, or ship it with `spark.submit.pyFiles`.",
            ),
            (
                "The version of PySpark is older than this use needs, or newer than all tested versions; or "
                "`ExactlyOnce` was created on Spark Connect.",
                "Use a version of [compatibility.md](compatibility.md), or the way that the remedy names.",
            ),
        ),
    ),
    "EOS-LOST-COMMITTABLE": Section(
        "A checkpoint is completed, and rows of it can no longer become visible. The pipeline stops, so the table "
        "does not grow behind a gap.",
        (
            (
                "A prepared transaction was rolled back by hand.",
                "Run `eos repair SPEC`, which re-reads its records and writes each row once.",
            ),
            (
                "A file of the log was removed or damaged.",
                "Restore the file, or run `eos repair SPEC`.",
            ),
            ("The rows are not needed.", "`eos reset SPEC --abandon-lost` gives them up and names them."),
        ),
    ),
    "EOS-FENCED": Section(
        "Another driver of this pipeline started later. This driver stopped before it could change anything. "
        f"{_STATE_SAFE}",
        (
            (
                "The pipeline was started twice: by hand, by a supervisor and by hand, or on two machines.",
                "Stop one of them. `eos status SPEC` shows the process that runs it on this machine.",
            ),
            (
                "Two pipelines have one name and one target.",
                "Give each its own `pipeline` and `checkpoint.location`.",
            ),
        ),
    ),
    "EOS-ALREADY-RUNNING": Section(
        "Another process on this machine runs the pipeline. Nothing was started or changed.",
        (
            (
                "It was started before, by a supervisor or in another terminal.",
                "`eos stop SPEC` stops it. `eos run SPEC --take-over` starts in its place: the older driver is fenced.",
            ),
            (
                "It hangs, or is frozen.",
                "End the process that the message names, or start with `--take-over`.",
            ),
        ),
    ),
    "EOS-NOT-RUNNING": Section(
        "The command needs a running pipeline, and no process answered.",
        (
            ("The pipeline is stopped.", "Start it with `eos run SPEC`. `eos status SPEC` shows its history."),
            (
                "It runs on another machine with its own head, or is busy.",
                "Run the command where its head can be read, or wait longer with `--timeout`.",
            ),
        ),
    ),
    "EOS-REFUSED": Section(
        "The running pipeline refused a request, and continues.",
        (("Named in the message.", "Follow the remedy below the message."),),
    ),
    "EOS-BUSY": Section(
        "The page already queries the sinks for another reader.",
        (("Two readers requested it at the same moment.", "Repeat the request in a few seconds."),),
    ),
    "EOS-UNCOMMITTED": Section(
        "The pipeline cannot be deleted, because a decided checkpoint is not visible in all sinks.",
        (("A sink did not answer.", "Run `eos run SPEC --until-caught-up`, then delete it."),),
    ),
    "EOS-PIPELINES-FAILED": Section(
        "Some of several pipelines in one process failed. The others ran to their own ends.",
        (("Named for each pipeline.", "Follow its remedy, and start that pipeline."),),
    ),
    "EOS-PAGE": Section(
        "The page cannot be served.",
        (
            ("The port is in use.", "Give another one by `--ui-port` or `--port`; 0 takes any free port."),
            ("The file of the token cannot be read.", "Correct its path or its rights."),
        ),
    ),
    "EOS-PERMIT-REVOKED": Section(
        "A task was too late: its checkpoint was aborted, or its driver replaced. The task left nothing behind. "
        f"{_STATE_SAFE}",
        (("A task was slow or frozen.", "Nothing: the checkpoint is re-run."),),
    ),
    "EOS-IDENTITY": Section(
        "Head, Spark's checkpoint and the sinks contradict each other. The start changed nothing.",
        (
            (
                "The checkpoint location was deleted, copied or restored from a backup.",
                "Restore checkpoint location, head and sinks to one moment. docs/how-to/backup.md shows each case.",
            ),
            (
                "The sink is claimed by another incarnation of the pipeline.",
                "Run it from its own checkpoint location. `eos reset SPEC` takes the sink over on purpose.",
            ),
            (
                "A plan or a list of files in the `checkpointLocation` of a job was written over, lost or damaged.",
                "Put the earlier version of the file back (docs/tutorial/own_job.md), or use `eos reset SPEC`.",
            ),
            (
                "`commit`, the columns or stateful steps were changed while something was still to commit.",
                "Change them back, run once with `--until-caught-up`, then change them.",
            ),
        ),
    ),
    "EOS-SET-BACK": Section(
        "A sink or the driver's machine was set back in time while the pipeline ran. The next start compares the sink "
        "with head.",
        (
            (
                "A backup of the database was restored, or a replica that lagged took over.",
                "Restart it. If rows are missing, the start names them, and `eos repair SPEC` rewrites them.",
            ),
            ("The driver's machine was restored from a snapshot.", "Restart it: nothing was written."),
        ),
    ),
    "EOS-PLAN-OVERWRITTEN": Section(
        f"Two drivers planned one batch at the same moment. The batch is not decided. {_STATE_SAFE}",
        (
            ("The pipeline was started twice.", "Stop one of them. The other restarts."),
            (
                "A job was started twice, and a list of files in its checkpoint was written over.",
                "Stop one of them. If the next start is refused, put the earlier version of the file back "
                "(docs/tutorial/own_job.md).",
            ),
        ),
    ),
    "EOS-REPLAY-MISMATCH": Section(
        "Spark re-runs a decided batch with other offsets or other rows. Nothing was written.",
        (
            (
                "A step is not deterministic: rand(), the current time, an outside table.",
                "Remove it, or put the value into the record. Then run `eos reset`.",
            ),
            ("Steps or tables were changed since the batch was decided.", "Change them back for one run."),
            ("Spark's checkpoint was set back.", "Restore the checkpoint location from a backup of the same moment."),
        ),
    ),
    "EOS-SAVEPOINT": Section(
        "A savepoint cannot be taken or used. Nothing was changed.",
        (
            ("The folder is missing, unfinished, damaged, or of a newer version.", "Name another savepoint."),
            (
                "The spec lacks stateful steps or sources of the savepoint, or a step has other types.",
                "Change the spec back, or leave their state and positions behind by `--allow-non-restored-state`.",
            ),
            (
                "The Spark checkpoint of a job is not known, or is on another machine.",
                "Start the job once with this version, and give the command on the machine that has the folder.",
            ),
            ("The folder for a restored job is not empty.", "Give another folder to `--checkpoint`."),
            ("A sink has not committed everything yet.", "Run `eos run SPEC --until-caught-up`, then take it."),
            (
                "In an object store: another user discarded it while it was written.",
                "Take another one. Discard an unfinished savepoint only after its writer has ended.",
            ),
            (
                "The store did not answer to the last request.",
                "`eos savepoint list` shows whether it exists once the store answers.",
            ),
        ),
    ),
    "EOS-HEAD": Section(
        f"Head, the store of decisions, cannot be read or written now. The pipeline retries. {_STATE_SAFE}",
        (
            (
                "The disk of the checkpoint location is full or read-only.",
                "Free space. `checkpoint.location` may be on another disk only before the first run.",
            ),
            ("The database of `checkpoint.head` does not answer.", "See that it runs and can be reached."),
            (
                "The object store or HDFS of `checkpoint.location` does not answer.",
                "See that it runs and can be reached. `eos doctor SPEC` writes and reads an object in it.",
            ),
        ),
    ),
    "EOS-HEAD-ACCESS": Section(
        "The database of `checkpoint.head`, or the store of `checkpoint.location`, refuses the login or a right.",
        (
            ("In a database: user name, password or certificate is wrong.", "Correct the URL of `checkpoint.head`."),
            (
                "In a database: the user may not create or change tables.",
                "Grant the rights that `eos doctor SPEC` lists.",
            ),
            (
                "In an object store: a key is wrong or has expired, or has no right to read or write.",
                "Correct `checkpoint.location_options` or the environment. `eos doctor SPEC` tries the rights.",
            ),
            ("The bucket does not exist.", "Create it, or correct `checkpoint.location`."),
            (
                "The store ignores the conditions of a write, so two drivers could both decide.",
                "Use a store or a version that honours `If-Match` and `If-None-Match`.",
            ),
            (
                "In HDFS: the login of Kerberos is missing, or the user has no right on the folder.",
                "Call `kinit`, or give `principal` and `keytab` in `checkpoint.location_options`. Grant the right.",
            ),
        ),
    ),
    "EOS-HEAD-UNKNOWN": Section(
        f"A change of head was sent and not answered: it may have arrived. The restart finds out. {_STATE_SAFE}",
        (("The connection broke.", "Nothing, if the pipeline restarts. Otherwise start it."),),
    ),
    "EOS-HEAD-FORMAT": Section(
        "A stored document of the protocol is damaged, or a newer version wrote it. Nothing was changed.",
        (
            ("A newer version of eos has run the pipeline.", "Use that version, or a newer one."),
            ("A file or row was changed or lost.", "Restore it from a backup. docs/how-to/backup.md shows how."),
        ),
    ),
    "EOS-HISTORY": Section(
        "The history of a pipeline cannot be read or written. It decides nothing, and the pipeline continues.",
        (
            ("The disk is full, or the file is damaged.", "Free space, or move the file of the history away."),
            ("The checkpoint is unknown or no longer kept.", "`eos status SPEC` lists the known checkpoints."),
        ),
    ),
    "EOS-STORAGE": Section(
        "The storage of a log cannot be used: a folder, or a bucket of an object store.",
        (
            ("The disk is full, or the folder cannot be written.", "Free space, or correct the rights."),
            (
                "The bucket does not exist, or the credentials are refused.",
                "Correct `checkpoint.log` and `log_options`.",
            ),
            (
                "The location is on a network filesystem.",
                "Use a local disk, or an object store by `checkpoint.log`.",
            ),
        ),
    ),
}
