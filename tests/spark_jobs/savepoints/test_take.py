"""What a savepoint is made of, and when there is none to be had."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.registry import open_requests
from connectors.spec import Spec, load_spec
from eos.errors import SavepointError
from spark_jobs.observe.head_reader import read_newest
from spark_jobs.observe.report import Listener
from spark_jobs.observe.run_lock import present
from spark_jobs.query import state_files
from spark_jobs.query.rebuilt_spark_log import RebuiltSparkLog
from spark_jobs.query.state_keeping import StateKeeping
from spark_jobs.run.control import StopControl
from spark_jobs.run.requests import RunRequests
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints import take as taking
from spark_jobs.savepoints.plan import describe
from spark_jobs.savepoints.take import Savepoints, Taken, newest, take
from tests import savepoint_files as files
from tests.savepoint_files import IDS, INCARNATION, NEWEST, folder_of
from twophase.codec import decode_head, decode_record, encode_head, encode_record, sha256_of
from twophase.head_value import HeadValue, RecordRef
from twophase.local_blobs import LocalBlobStore
from twophase.local_head import LocalHead
from twophase.requests import Answer, Request
from wal.local import LocalStorage


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    return files.run_until(tmp_path / "state")


def taken_in(tmp_path: Path) -> Taken:
    spec = files.spec_in(tmp_path)
    files.keep_plan(tmp_path / "state", spec)
    return take(spec)


@pytest.mark.usefixtures("spark")
def test_it_holds_the_newest_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    taken = taken_in(tmp_path)
    manifest = manifests.checked(folder_of(taken))
    assert (manifest.pipeline, manifest.incarnation, manifest.checkpoint_id) == ("orders", INCARNATION, NEWEST)
    state = [f"spark/state/0/{p}/{NEWEST + 1}_{unique}.zip" for p, (unique,) in enumerate(IDS["0"])]
    tables = [f"spark/state/0/{p}/SSTs/{NEWEST + 1}.sst" for p in (0, 1)]
    schemas = [f"spark/state/0/{p}/_metadata/schema" for p in (0, 1)]
    logs = ["spark/metadata", f"spark/offsets/{NEWEST - 1}", f"spark/offsets/{NEWEST}", f"spark/commits/{NEWEST}"]
    told = ["head.json", "record.json", "spec.yaml", "spark/state/0/_metadata/metadata"]
    assert sorted(manifest.files) == sorted([*state, *tables, *schemas, *logs, *told])
    head = decode_head((folder_of(taken) / "head.json").read_bytes())
    assert (head.completed, head.committed, head.positions, head.records) == (NEWEST, NEWEST, {"s": {"t/0": 600}}, ())
    assert decode_record((folder_of(taken) / "record.json").read_bytes()).checkpoint_id == NEWEST
    assert manifest.plan is not None
    assert manifest.plan.operators == (files.COUNTED,)
    spec = (folder_of(taken) / "spec.yaml").read_text()
    assert ("geheim" in spec, "u:***@h/d" in spec) == (False, True)
    assert list((tmp_path / "state" / "pins").iterdir()) == []


def test_a_checkpoint_that_spark_has_not_done_is_left_out(tmp_path: Path) -> None:
    files.run_until(tmp_path / "state", done=NEWEST - 1)
    taken = taken_in(tmp_path)
    head = decode_head((folder_of(taken) / "head.json").read_bytes())
    assert (taken.manifest.checkpoint_id, taken.manifest.later) == (NEWEST - 1, 1)
    assert head.positions == {"s": {"t/0": 100 * NEWEST}}, "before what the later one has read"


def test_positions_before_a_checkpoint_whose_record_is_gone_are_not_guessed(tmp_path: Path) -> None:
    files.run_until(tmp_path / "state", done=NEWEST - 3)  # records are kept of the newest two
    with pytest.raises(SavepointError, match=f"what checkpoint {NEWEST - 2} has read is not known any more"):
        taken_in(tmp_path)


def test_what_is_decided_and_not_committed_of_a_stopped_pipeline_is_brought_to_its_end_first(tmp_path: Path) -> None:
    files.run_until(tmp_path / "state", committed=NEWEST - 1)
    spec = files.spec_in(tmp_path)
    with pytest.raises(SavepointError, match="decided and not yet committed everywhere"):
        take(spec)
    with present(spec, "session"):  # of one that runs, later ones are as any that come after
        assert (take(spec).manifest.checkpoint_id, take(spec).manifest.later) == (NEWEST - 1, 1)


def test_a_plan_that_is_not_the_decided_one_is_not_kept(tmp_path: Path, spark: Path) -> None:
    """A driver that was frozen has written its own plan over it (H25). A start refuses that, too."""
    (spark / "offsets" / str(NEWEST)).write_text(files.offsets(NEWEST).replace("600", "650"))
    with pytest.raises(SavepointError, match=f"offsets/{NEWEST} is not what checkpoint {NEWEST} was decided with"):
        taken_in(tmp_path)


def test_a_pipeline_that_has_not_run(tmp_path: Path) -> None:
    with pytest.raises(SavepointError, match="has not committed a checkpoint yet"):
        take(files.spec_in(tmp_path))
    assert not (tmp_path / "state" / "head").exists(), "looking makes nothing"


def test_what_spark_deletes_meanwhile_is_taken_of_a_newer_checkpoint(
    tmp_path: Path, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look meets a file that is gone; nothing of that try is left."""
    looks: list[int] = []
    needed = state_files.needed

    def first_gone(folder: Path, checkpoint_id: int) -> list[str]:
        looks.append(checkpoint_id)
        return [*needed(folder, checkpoint_id), *(["state/gone"] if len(looks) == 1 else [])]

    monkeypatch.setattr("spark_jobs.savepoints.take.needed", first_gone)
    spec = files.spec_in(tmp_path)
    with present(spec, "session"):
        taken = take(spec)
    assert looks == [NEWEST, NEWEST]
    assert manifests.damage(folder_of(taken), taken.manifest) == []
    assert len(list((tmp_path / "state" / "savepoints").iterdir())) == 1
    (spark / "state" / "0" / "1" / "SSTs" / f"{NEWEST + 1}.sst").unlink()
    with pytest.raises(SavepointError, match="Spark no longer has"):
        take(spec)
    assert manifests.damage(folder_of(taken), taken.manifest) == [], "it stands by itself"


def test_a_folder_that_a_driver_fills_meanwhile_is_not_taken(
    tmp_path: Path, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its location is in a store, and some files may not be there yet."""
    local = files.spec_in(tmp_path)
    files.keep_plan(tmp_path / "state", local)
    with newest(local) as point:
        pass
    text = files.SPEC.replace("location: state", "location: s3://bucket/orders, scratch: state")
    (tmp_path / "orders.yaml").write_text(text)
    spec = load_spec(tmp_path / "orders.yaml", {})
    monkeypatch.setattr("spark_jobs.savepoints.take.newest", lambda _: nullcontext(point))
    monkeypatch.setattr("spark_jobs.savepoints.take.read_head", lambda _: None)
    assert manifests.damage(folder_of(taken := take(spec, tmp_path / "into")), taken.manifest) == []
    (spark / "without-state").touch()
    with pytest.raises(SavepointError, match=f"Spark no longer has .*commits/{NEWEST}"):
        take(spec, tmp_path / "into")


def test_a_pin_is_no_copy_and_a_copy_no_link(tmp_path: Path, spark: Path) -> None:
    taken = taken_in(tmp_path)
    source = spark / "offsets" / str(NEWEST)
    source.write_text("damaged later")
    assert manifests.damage(folder_of(taken), taken.manifest) == []
    shutil.rmtree(tmp_path / "state" / "spark")
    assert manifests.damage(folder_of(taken), taken.manifest) == []


def test_a_changelog_needs_what_it_was_written_upon(spark: Path) -> None:
    """Two ids of version 5, of which one is a losing task's: both are taken, and the history goes on below them."""
    store = spark / "state" / "0" / "0"
    ((unique,), _) = IDS["0"]
    losing = "00000000-0000-0000-0000-00000000dead"
    for path in (*store.glob("*.zip"),):
        path.unlink()
    files.snapshot(store, f"3_{unique}", ["3.sst"])
    files.snapshot(store, f"5_{losing}", ["5.sst"])
    for name in (f"4_{unique}", f"5_{unique}", f"5_{losing}", f"6_{unique}", f"2_{unique}"):
        (store / f"{name}.changelog").write_text("changes")
    found = {path.rpartition("/")[2] for path in state_files.needed(spark, NEWEST) if "/0/0/" in f"/{path}"}
    chain = {f"6_{unique}.changelog", f"5_{unique}.changelog", f"4_{unique}.changelog", f"3_{unique}.zip", "3.sst"}
    assert chain <= found
    assert f"2_{unique}.changelog" not in found


def test_what_spark_says_of_an_operator_later_on_is_left_out(spark: Path) -> None:
    """Of `transformWithState` each start writes it anew, under the number of its first batch."""
    for number in (NEWEST - 2, NEWEST + 1):
        files.put(spark / "state" / "0" / "_metadata" / "v2" / str(number), "v2")
    found = {path for path in state_files.needed(spark, NEWEST) if "/v2/" in path}
    assert found == {f"state/0/_metadata/v2/{NEWEST - 2}"}


@pytest.mark.usefixtures("spark")
def test_one_that_was_cut_short_is_not_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is copied, and the disk is full when the manifest would say so."""

    def full(_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifests, "encode", full)
    with pytest.raises(SavepointError, match="No space left on device"):
        taken_in(tmp_path)
    assert [path.suffix for path in (tmp_path / "state" / "savepoints").iterdir()] == [".partial"]


@pytest.mark.usefixtures("spark")
def test_one_that_is_asked_for_while_a_run_ends_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run waits for the first one; the second one comes too late; whoever wants it to stop has what is wanted."""
    spec = files.spec_in(tmp_path)
    begun, late = threading.Event(), threading.Event()

    def slow(spec: Spec) -> Taken:
        begun.set()
        late.wait(60)
        return take(spec)

    monkeypatch.setattr("spark_jobs.savepoints.take.take", slow)
    with open_requests(spec) as channel:
        asked = RunRequests(spec, [], StopControl(), channel, Listener())

        def ask(kind: str) -> Request:
            return channel.ask(kind, {}, asked_by="a test", patience_s=60.0)

        def ask_late() -> None:
            requests.extend(ask(kind) for kind in ("savepoint", "stop"))
            time.sleep(1)  # the run listens every 0.2 s
            late.set()

        with asked.heard(lambda: Answer(ok=True, message="stopped")):
            requests = [ask("savepoint")]
            assert begun.wait(60)
            ending = threading.Timer(0.5, ask_late)
            ending.start()
        ending.join()
        answers = [channel.answer_of(request) for request in requests]
    assert [(answer.ok, answer.message) for answer in answers if answer is not None] == [
        (True, f"savepoint of checkpoint {NEWEST}"),
        (False, "the run has ended"),
        (True, "stopped"),
    ]


@pytest.mark.usefixtures("spark")
def test_one_that_is_asked_for_is_answered_when_it_is_whole(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {}
    savepoints = Savepoints(files.spec_in(tmp_path), lambda request, answer: answers.update({request.id: answer}))
    for number, arguments in enumerate(({}, {"into": str(tmp_path / "kept")}, {"into": "s3://bucket/theirs"})):
        savepoints.begin(Request(str(number), "savepoint", arguments, 0.0, 1.0, "somebody"))
    savepoints.close()
    folder = Path(str(answers["0"].facts["folder"]))
    assert (answers["0"].ok, folder.parent, manifests.checked(folder).checkpoint_id) == (
        True,
        tmp_path / "state" / "savepoints",
        NEWEST,
    )
    for refused in (answers["1"], answers["2"]):
        assert (refused.ok, refused.message) == (False, "a request cannot name the place of a savepoint")
    assert not (tmp_path / "kept").exists()


def test_one_that_fails_by_what_nobody_foresaw_is_answered_as_well(
    tmp_path: Path, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Answer] = []
    savepoints = Savepoints(files.spec_in(tmp_path), lambda _, answer: answers.append(answer))
    with monkeypatch.context() as changed:
        changed.setattr(taking, "default_place", lambda _: Path("no\0folder"))
        savepoints.begin(Request("0", "savepoint", {}, 0.0, 1.0, "somebody"))
        savepoints.close()
    ((unique,), _) = IDS["0"]
    (spark / "state" / "0" / "0" / f"{NEWEST + 1}_{unique}.zip").write_bytes(b"damaged")
    savepoints = Savepoints(files.spec_in(tmp_path), lambda _, answer: answers.append(answer))
    savepoints.begin(Request("1", "savepoint", {}, 0.0, 1.0, "somebody"))
    savepoints.close()
    assert [each.ok for each in answers] == [False, False]
    assert ("null byte" in answers[0].message, f"{unique}.zip is damaged" in answers[1].message) == (True, True)


def test_what_is_kept_of_the_spec_names_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    step = "{name: s2, python: 'm:f', from: s, options: {key: '${env:KEY}', deep: [{key: '${env:KEY}'}]}}"
    sql = "SELECT count(*) AS value, '${env:KEY}' AS k FROM s2"
    path.write_text(
        files.SPEC.replace("[{name: counted", f"[{step}, {{name: counted").replace(
            "SELECT count(*) AS value FROM s", sql
        )
    )
    key = 'quite "secret" ü'
    described = str(describe(load_spec(path, {"KEY": key})))
    assert ("secret" in described, "***" in described, "count(*)" in described) == (False, True, True)


@pytest.mark.usefixtures("spark")
def test_names_that_cannot_be_read_are_not_known(tmp_path: Path) -> None:
    taken_in(tmp_path)
    (path,) = (tmp_path / "state" / "plans").iterdir()
    path.write_text("{half")
    assert take(files.spec_in(tmp_path)).manifest.plan is None


def test_state_is_asked_for_until_the_plan_of_the_query_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is kept after checkpoint 0 is committed. Where the location is in a store, head alone is not enough."""
    spec = files.spec_in(tmp_path)
    head, record = LocalHead(tmp_path / "state"), encode_record(files._record(0))
    ref = RecordRef(0, f"0-{sha256_of(record)}", sha256_of(record))
    head.put_record(ref.name, record)
    value = HeadValue("orders", INCARNATION, 1, ("n",), query_id="query", completed=0, committed=0, records=(ref,))
    assert head.swap(None, encode_head(replace(value, positions={"s": {"t/0": 100}}, sinks=("out",))))
    states = StateKeeping(lambda: LocalStorage(tmp_path / "states"))
    (tmp_path / "shelf").mkdir()
    log = RebuiltSparkLog(
        tmp_path / "scratch",
        lambda: read_newest(spec),
        lambda: nullcontext(LocalBlobStore(tmp_path / "shelf")),
        states,
    )
    monkeypatch.setattr(taking, "spark_log", lambda _: log)
    with pytest.raises(SavepointError, match="has no batch that is done"):
        take(spec)
