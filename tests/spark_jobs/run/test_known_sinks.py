"""H32: what starts keep of sinks with a log, and what a start without a sink does with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from connectors.api.contracts import Sink
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.sink import KafkaSink
from connectors.kafka.sink.target import Facts, Topics
from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.registry import open_documents, open_head
from connectors.spec import Spec, load_spec
from connectors.sql.mysql import target as mysql
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres import target as postgres
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import FencedError, HeadAccessError, HeadError, HeadFormatError, SinkUnavailableError
from spark_jobs.run.known_sinks import KnownSink, KnownSinks, Opening
from tests.object_store import KEYS, Bucket, Request, Wire, lost_answer, lost_request, through
from tests.twophase.test_effects import MemorySink, Setting
from tests.twophase_values import INCARNATION, head
from twophase.backlog import Limit
from twophase.codec import decode_head
from twophase.documents import Documents, LocalDocuments
from twophase.driver import Driver
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.object_head import ObjectDocuments
from twophase.retry import Patience

_GOLDEN: Final = Path(__file__).parents[2] / "golden" / "known-sink.json"
_NOWHERE: Final = "127.0.0.1:9"
_ROWS: Final = pa.schema([("id", pa.int64()), ("word", pa.string())])


def mysql_sink(folder: Path) -> MySqlSink:
    """Opened by a server that had this table."""
    columns = (
        mysql.TargetColumn("id", "bigint", "bigint", nullable=False, filled=False, generated=False),
        mysql.TargetColumn("word", "longtext", "longtext", True, False, False, collation="utf8mb4_bin"),
    )
    key = mysql.UniqueIndex("PRIMARY", (mysql.KeyPart("id"),))
    table = mysql.Target("shop", "orders", "InnoDB", columns, (key,))
    url = f"mysql+pymysql://eos:secret@{_NOWHERE}/shop"
    return replace(MySqlSink("warehouse", url, "orders", log=LogPlace(folder)), learned=table)


def postgres_sink(folder: Path) -> PostgresSink:
    """Opened by a server that had this table."""
    columns = (
        postgres.TargetColumn("id", "int8", "bigint", False, False, False, False),
        postgres.TargetColumn("word", "varchar", "character varying(9)", True, False, False, False, length=9),
    )
    key = postgres.UniqueIndex("orders_pkey", ("id",), exact=True)
    table = postgres.Target("public", "orders", "p", columns, (key,))
    url = f"postgresql+psycopg://eos:secret@{_NOWHERE}/shop"
    return replace(PostgresSink("warehouse", url, "orders", log=LogPlace(folder)), learned=table)


def kafka_sink(folder: Path) -> KafkaSink:
    """Opened by a cluster that had this topic."""
    properties = {"sasl.password": "secret"}
    sink = KafkaSink("warehouse", _NOWHERE, Layout(topic="orders"), LogPlace(folder), properties=properties)
    return replace(sink, rows=_ROWS, topics=Topics(sink.connection, Facts(3, 1_048_588, 1), sink.markers))


MAKERS: Final[dict[str, Callable[[Path], Sink]]] = {"mysql": mysql_sink, "postgres": postgres_sink, "kafka": kafka_sink}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_sink_is_opened_by_what_was_learned_and_writes_what_it_would_have_written(kind: str, tmp_path: Path) -> None:
    learned = MAKERS[kind](tmp_path)
    known = learned.cached_target
    assert known is not None
    assert "secret" not in known
    opened = MAKERS[kind](tmp_path).open_cached(_ROWS, known)
    assert (list(opened.columns), opened.cached_target) == (["id", "word"], known)
    writer = opened.writer(TransactionId(Scope(INCARNATION, 1, 0), sink_key("warehouse"), 0, 1))
    writer.write(pa.record_batch([[1, 2], ["a", "b"]], schema=_ROWS))
    assert writer.prepare().rows == 2


@pytest.mark.parametrize("kind", MAKERS)
def test_what_was_learned_of_another_target_does_not_do(kind: str, tmp_path: Path) -> None:
    sink = MAKERS[kind](tmp_path)
    known = sink.cached_target
    assert known is not None
    for other in (known.replace("orders", "others"), known.replace(_NOWHERE, "127.0.0.1:8"), "{}", "", "[]", "7"):
        with pytest.raises(SinkUnavailableError, match="cannot go on without it"):
            sink.open_cached(_ROWS, other)


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
def test_rows_that_the_table_did_not_take_wait_for_it(kind: str, tmp_path: Path) -> None:
    sink = MAKERS[kind](tmp_path)
    assert sink.cached_target is not None
    with pytest.raises(SinkUnavailableError, match="'more' is missing in the table"):
        sink.open_cached(_ROWS.append(pa.field("more", pa.int64())), sink.cached_target)


def test_topics_that_rows_name_are_asked_for_in_tasks(tmp_path: Path) -> None:
    sink = KafkaSink("warehouse", _NOWHERE, Layout(topic=None, topic_column="word"), LogPlace(tmp_path))
    assert replace(sink, topics=Topics(sink.connection, None, sink.markers)).cached_target is None


# --- documents


@pytest.fixture(params=["folder", "store"])
def documents(request: pytest.FixtureRequest, tmp_path: Path) -> Documents:
    """In a folder, and in an object store."""
    if request.param == "folder":
        return LocalDocuments(tmp_path)
    return ObjectDocuments(request.getfixturevalue("bucket").address("eos/orders"))


def only_name(documents: Documents) -> str:
    """Return the name of the only document."""
    (name,) = documents.names(f"sinks/{INCARNATION}")
    return f"sinks/{INCARNATION}/{name}"


def test_the_golden_document_is_read_and_written_to_the_letter() -> None:
    known = KnownSink.decoded(_GOLDEN.read_bytes(), str(_GOLDEN))
    assert (known.epoch, known.slots) == (7, frozenset({1, 4}))
    assert known.encoded() == _GOLDEN.read_bytes()
    assert known.known is not None
    assert MySqlSink(
        "warehouse", f"mysql+pymysql://eos:x@{_NOWHERE}/shop", "orders", log=LogPlace(Path("/x"))
    ).open_cached(_ROWS, known.known).columns == ("id", "word")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"[" * 200_000, id="deep"),  # a name of this length could not be in the environment of a process
        *(b"[]", b"7", b"{}", b'{"format": 1, "epoch": 1, "slots": ["x"], "known": null}'),
    ],
)
def test_a_damaged_document_is_an_error_with_a_remedy_and_its_sink_is_needed(
    documents: Documents, tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(HeadFormatError) as caught:
        KnownSink.decoded(content, "sinks/x")
    assert caught.value.remedy
    kept, sink = KnownSinks(documents), kafka_sink(tmp_path)
    assert kept.incarnations(None, [sink]) == {}
    assert kept.incarnations(head(), [sink]) == {"warehouse": frozenset()}
    kept.keep(INCARNATION, "warehouse", KnownSink(1, frozenset({1}), "x"))
    assert kept.incarnations(head(), [sink]) == {"warehouse": {INCARNATION}}
    documents.replace(only_name(documents), content)
    assert kept.incarnations(head(), [sink]) == {"warehouse": frozenset()}


def test_a_document_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    content = json.dumps({"format": 2, "epoch": 1, "slots": [1], "known": None}).encode()
    with pytest.raises(HeadFormatError, match="has format 2"):
        KnownSink.decoded(content, "sinks/x")


def test_what_the_newest_epoch_has_kept_counts(documents: Documents) -> None:
    """A start that was held up keeps nothing over that of a newer one."""
    kept = KnownSinks(documents)
    newer, older = KnownSink(12, frozenset({1, 2}), "newer"), KnownSink(9, frozenset({1}), "older")
    kept.keep(INCARNATION, "warehouse", newer)
    kept.keep(INCARNATION, "warehouse", older)
    assert kept.read(INCARNATION, "warehouse") == newer
    kept.keep(INCARNATION, "warehouse", replace(newer, epoch=13))
    assert only_name(documents) == f"sinks/{INCARNATION}/{sink_key('warehouse')}.0000000d.json"
    assert kept.read("another", "warehouse") is kept.read(INCARNATION, "another") is None
    kept.keep("another", "warehouse", older)
    kept.forget(INCARNATION)
    assert (kept.read(INCARNATION, "warehouse"), kept.read("another", "warehouse")) == (None, older)


def test_a_document_that_a_newer_start_deletes_during_a_read_is_read_as_the_newer_one(documents: Documents) -> None:
    kept = KnownSinks(documents)
    kept.keep(INCARNATION, "warehouse", KnownSink(5, frozenset({2}), "older"))
    newer = KnownSink(6, frozenset({2, 4}), "newer")

    class Reader(_Passing):
        def read(self, name: str) -> bytes | None:
            if "00000005" in name:
                kept.keep(INCARNATION, "warehouse", newer)
            return super().read(name)

    assert KnownSinks(Reader(documents)).read(INCARNATION, "warehouse") == newer


def test_a_store_that_lists_what_it_does_not_have_is_an_error(documents: Documents) -> None:
    class Listing(_Passing):
        def names(self, folder: str) -> list[str]:
            return [f"{sink_key('warehouse')}.00000005.json"]

    with pytest.raises(HeadError, match="is listed, and cannot be found"):
        KnownSinks(Listing(documents)).read(INCARNATION, "warehouse")


class _Passing:
    """Documents of another one."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.replace, self.delete, self.place = documents.replace, documents.delete, documents.place

    def read(self, name: str) -> bytes | None:
        return self._documents.read(name)

    def names(self, folder: str) -> list[str]:
        return [*self._documents.names(folder)]


@pytest.mark.usefixtures("hasty")
def test_a_lost_request_or_answer_is_repeated_and_a_cut_wire_is_an_error_of_head(
    bucket: Bucket, wire: Callable[..., Wire]
) -> None:
    known = KnownSink(7, frozenset({2, 4}), "x")
    line = wire(lost_request, lost_answer, through)
    KnownSinks(ObjectDocuments(bucket.address(port=line.port))).keep(INCARNATION, "warehouse", known)
    assert line.requests.count("PUT") == 3
    assert KnownSinks(ObjectDocuments(bucket.address())).read(INCARNATION, "warehouse") == known
    cut = KnownSinks(ObjectDocuments(bucket.address(port=wire(lost_request).port)))
    with pytest.raises(HeadError) as caught:
        cut.keep(INCARNATION, "warehouse", known)
    assert caught.value.retriable
    with pytest.raises(HeadError) as caught:
        cut.read(INCARNATION, "warehouse")
    assert caught.value.retriable


def test_a_start_is_told_that_it_may_not_list(bucket: Bucket, wire: Callable[..., Wire]) -> None:
    def denied(line: Wire, request: Request) -> bytes:
        return b"HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n" if b"list-type" in request.head else line.relay(request)

    kept = KnownSinks(ObjectDocuments(bucket.address(port=wire(denied).port)))
    with pytest.raises(HeadAccessError) as caught:
        kept.keep(INCARNATION, "warehouse", KnownSink(7, frozenset({2}), "x"))
    assert not caught.value.retriable


# --- starts


@dataclass
class LogSink(MemorySink):
    """A sink with a log, as far as a start asks for it."""

    permits_once: bool = True
    slots: frozenset[int] = frozenset({1})
    away: bool = False

    def _called(self, what: str) -> None:
        if self.away and what != "permit away":
            raise SinkUnavailableError("the server does not answer")
        super()._called(what)


@dataclass
class Starts:
    """Starts of a pipeline, and the sink that they open."""

    setting: Setting
    sink: LogSink
    folder: Path
    kept: KnownSinks
    open_head: Callable[[], HeadStore]

    def start(self) -> Driver:
        limits = {"warehouse": Limit(9, outlasts_outages=True)}
        known = self.kept.incarnations(self.head(), [self._target()])
        driver = self.setting.driver(self.open_head(), limits=limits, known=known)
        driver.patience = Patience(0.1, 0.001, 0.01)
        driver.start()
        return driver

    def open(self, driver: Driver) -> Sink:
        """As the driver opens it. A server that answers tells of the table."""
        opening = Opening(_Answering(self._target()), driver, self.kept)  # type: ignore[arg-type]
        try:
            return opening.open(_ROWS)
        finally:
            driver.close()

    def head(self) -> HeadValue | None:
        """As it is now."""
        with closing(self.open_head()) as store:
            found = store.read()
        return decode_head(found.value) if found is not None else None

    def _target(self) -> MySqlSink:
        return mysql_sink(self.folder)


@dataclass
class _Answering:
    """A sink whose server answers, and has the table that it has learned of."""

    sink: MySqlSink

    @property
    def name(self) -> str:
        return self.sink.name

    def open(self, schema: pa.Schema) -> Sink:
        assert self.sink.cached_target is not None
        return self.sink.open_cached(schema, self.sink.cached_target)

    def open_cached(self, schema: pa.Schema, known: str) -> Sink:
        return self.sink.open_cached(schema, known)


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    sink = LogSink()
    kept = KnownSinks(LocalDocuments(tmp_path))
    return Starts(Setting(tmp_path, sink=sink), sink, tmp_path, kept, lambda: LocalHead(tmp_path))


def test_a_start_without_the_sink_opens_it_by_what_the_start_before_has_kept(starts: Starts) -> None:
    starts.open(starts.start())
    starts.sink.away = True
    driver = starts.start()
    assert driver.away == {"warehouse"}
    assert list(starts.open(driver).columns) == ["id", "word"]
    known = starts.kept.read(INCARNATION, "warehouse")
    assert known is not None
    assert known.epoch == 1, "who has not seen the sink keeps nothing"


def test_a_start_waits_for_a_sink_that_may_have_another_number_of_slots(starts: Starts) -> None:
    starts.sink.slots = frozenset({1, 4})  # the sink has 1, and the start was to set 4
    starts.open(starts.start())
    starts.sink.away = True
    for wanted in (1, 4, 2):
        starts.sink.slots = frozenset({wanted})
        with pytest.raises(SinkUnavailableError, match=f"may have 1, 4 slots, and the spec names {wanted}"):
            starts.open(starts.start())
    starts.sink.away = False
    starts.sink.slots = frozenset({4})
    starts.open(starts.start())
    starts.sink.away = True
    starts.open(starts.start())


def test_who_keeps_slots_is_fenced_by_a_start_that_may_not_know_of_them(starts: Starts) -> None:
    """Before its first permit: the later start has claimed head, and may have read what was kept before."""
    starts.open(starts.start())
    held_up = starts.start()
    starts.sink.away = True
    later = starts.start()
    starts.open(later)
    starts.sink.away = False
    with pytest.raises(FencedError):
        starts.open(held_up)


def test_the_number_that_the_sink_has_is_kept_beside_that_of_the_start(tmp_path: Path) -> None:
    file = tmp_path / "sink.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE orders (id INTEGER, word TEXT)")
    sink = SqliteSink("warehouse", file, "orders", LogPlace(tmp_path / "log", slots=2))
    for epoch, (slots, found) in enumerate([(2, {2}), (3, {2, 3}), (3, {3})], 1):
        committer = replace(sink, log=LogPlace(tmp_path / "log", slots)).committer("p")
        assert isinstance(committer, LogCommitter)
        with closing(committer):
            assert committer.slots == {slots}, "before the claim only the spec tells"
            committer.claim(INCARNATION, epoch)
            assert committer.slots == found
            committer.permit(Scope(INCARNATION, epoch, 0))


def test_the_doctor_says_whether_a_start_could_go_on_without_a_sink(documents: Documents) -> None:
    kept = KnownSinks(documents)
    found = [kept.finding(head(), "warehouse")]
    for epoch, (slots, known) in enumerate([({1}, None), ({1, 4}, "x"), ({4}, "x")], 1):
        kept.keep(INCARNATION, "warehouse", KnownSink(epoch, frozenset(slots), known))
        found.append(kept.finding(head(), "warehouse"))
    assert [each.ok for each in found] == [False, False, False, True]
    assert not any(each.fatal and not each.ok for each in found)
    assert "it may have 1 or 4 slots" in found[2].detail
    documents.replace(only_name(documents), b"{}")
    assert "is damaged" in kept.finding(head(), "warehouse").detail


def test_a_file_of_sqlite_is_needed_at_each_start(tmp_path: Path) -> None:
    sink = SqliteSink("warehouse", tmp_path / "sink.db", "orders", LogPlace(tmp_path))
    assert sink.cached_target is None
    with pytest.raises(SinkUnavailableError, match="is needed"):
        sink.open_cached(_ROWS, "")


# --- machines


_SPEC: Final = """
pipeline: orders
checkpoint: {location: 's3://%s/eos/orders', location_options: {%s}, scratch: %s}
sources: [{name: in, connector: kafka, bootstrap_servers: "127.0.0.1:9", topics: [t],
  format: {type: json, schema: "id BIGINT, word STRING"}}]
sinks: [{name: warehouse, from: in, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}]
"""


@dataclass
class Machines:
    """Starts of one pipeline, whose location is in a store, on machines with a scratch folder each."""

    folder: Path
    bucket: Bucket
    sink: LogSink

    def on(self, name: str) -> Starts:
        spec = self.spec(name)
        folder = spec.checkpoint.folder
        return Starts(Setting(folder, sink=self.sink), self.sink, folder, KnownSinks.of(spec), lambda: open_head(spec))

    def spec(self, name: str) -> Spec:
        """As it is on this machine."""
        given = {"endpoint": f"http://127.0.0.1:{self.bucket.port}", "allow_http": "true", "region": "us-east-1"}
        options = ", ".join(f"{key}: {value!r}" for key, value in {**given, **KEYS}.items())
        path = self.folder / f"{name}.yaml"
        path.write_text(_SPEC % (self.bucket.name, options, self.folder / name))
        return load_spec(path, {})

    def kept(self) -> Mapping[str, bytes]:
        """In the store, by name."""
        return {key.rpartition("/")[2]: content for key, content in self.bucket.contents().items() if "/sinks/" in key}


@pytest.fixture
def machines(tmp_path: Path, bucket: Bucket) -> Machines:
    return Machines(tmp_path, bucket, LogSink())


def test_a_start_on_another_machine_knows_the_slots_that_the_sink_has_got_meanwhile(machines: Machines) -> None:
    """It would write for slots that the sink has no more: some would stand still, or half of the rows be counted."""
    one, two, sink = machines.on("one"), machines.on("two"), machines.sink
    sink.slots = frozenset({2})
    one.open(one.start())
    for slots in ({2, 4}, {4}):  # `slots: 4` on the other machine, in two starts
        sink.slots = frozenset(slots)
        two.open(two.start())
    assert list(machines.kept()) == [f"{sink_key('warehouse')}.00000003.json"]
    sink.away, sink.slots = True, frozenset({2})
    with pytest.raises(SinkUnavailableError, match="may have 4 slots, and the spec names 2"):
        one.open(one.start())
    sink.slots = frozenset({4})
    assert list(one.open(one.start()).columns) == ["id", "word"], "a machine that had the sink two starts ago"
    assert not list(machines.folder.glob("*/sinks")), "all of it is in the store"


def _as_an_earlier_version(machines: Machines, name: str, slots: set[int]) -> None:
    """A start with the sink, which keeps what it has learned in the scratch folder."""
    earlier = machines.on(name)
    machines.sink.slots = frozenset(slots)
    earlier.kept = KnownSinks(LocalDocuments(earlier.folder))
    earlier.open(earlier.start())


def test_a_start_takes_over_what_an_earlier_version_has_kept_on_this_machine(machines: Machines) -> None:
    _as_an_earlier_version(machines, "one", {2})
    assert not machines.kept()
    one = machines.on("one")
    now = one.head()
    assert now is not None
    assert one.kept.finding(now, "warehouse").ok
    assert not machines.kept(), "the doctor changes nothing"
    machines.sink.away = True
    for _ in range(2):
        assert list(one.open(one.start()).columns) == ["id", "word"]
    (path,) = (one.folder / "sinks" / INCARNATION).iterdir()
    assert machines.kept() == {path.name: path.read_bytes()}
    other = machines.on("two")
    assert list(other.open(other.start()).columns) == ["id", "word"], "another machine"


def test_what_an_earlier_version_has_kept_before_starts_of_other_machines_is_not_taken_over(machines: Machines) -> None:
    for name, slots in [("one", {2}), ("two", {2, 4}), ("two", {4})]:
        _as_an_earlier_version(machines, name, slots)
    machines.sink.away, machines.sink.slots = True, frozenset({2})
    one = machines.on("one")
    with pytest.raises(SinkUnavailableError):
        one.start()
    assert not machines.kept()


def test_what_is_stored_counts_and_not_what_an_earlier_version_has_kept(machines: Machines) -> None:
    one = machines.on("one")
    one.open(one.start())
    _as_an_earlier_version(machines, "one", {4})
    before = machines.kept()
    one.kept.take_over(head(epoch=2), "warehouse")
    assert machines.kept() == before


def test_the_end_of_an_incarnation_deletes_what_is_stored_of_it(machines: Machines) -> None:
    starts, documents = machines.on("one"), open_documents(machines.spec("one"))
    starts.open(starts.start())
    documents.replace("sinks/another/x.00000001.json", b"{}")
    starts.kept.forget(INCARNATION)
    assert list(machines.kept()) == ["x.00000001.json"]
