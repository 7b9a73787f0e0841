"""The rights of docs/how-to/security.md are enough for each sink and variant and for head, and each is needed."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.api.contracts import Sink
from connectors.log.place import LogPlace
from connectors.sql.head import SqlHead
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver, new_incarnation
from connectors.testing.target import schema_for
from eos.errors import ConnectorError, HeadAccessError, HeadError, TargetError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.harness.pipeline import PARTITIONS, TABLE, Pipeline
from integration_tests.harness.tenant import Right, Tenant, rights
from integration_tests.services import Services
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from integration_tests.test_postgres_pipeline import PostgresPipeline

_FIRST = {"mysql": ["every sink", "a table that is there"], "postgresql": ["the administrator", "every sink"]}
_VARIANTS = {"two-phase": [], "write-ahead-log": [], "upsert": ["upsert"]}
_MAKING = "create: if-missing, evolve: add-columns"
_RECORDS = 700


def target_of(tenant: Tenant, commit: str, folder: Path, *, keyed: bool) -> DatabaseTarget:
    """A table, written to by this user."""
    kind = MySqlTarget if tenant.kind == "mysql" else PostgresTarget
    made = kind(tenant.admin_url, None, keyed=keyed)
    made.url = tenant.url
    return variant(made, commit, folder)


def variant(target: DatabaseTarget, commit: str, folder: Path) -> DatabaseTarget:
    """The same table, written to in this way."""
    other = copy.copy(target)
    other.log = None if commit == "two-phase" else LogPlace(folder / commit, slots=2)
    other.keyed = commit == "upsert"
    return other


def live(target: DatabaseTarget, incarnation: str) -> None:
    """All that a driver and its tasks do: start, write, leave something, start again, repair, write directly, end."""
    driver = SinkDriver(target, incarnation=incarnation)
    driver.start()
    try:
        driver.checkpoint(0, rows(0, 10), rows(10, 20))
        driver.prepare(driver.permit(1), *rows(20, 30))
        driver.start()
        driver.checkpoint(1, rows(20, 30))
        lost = driver.prepare(driver.permit(2), *rows(40, 45))
        driver.decided[2] = [lost]
        driver.lose(lost)
        driver.decided[2] = [driver.rewrite_missing(2, lost, *rows(40, 45))]
        driver.commit(2)
        scope = driver.permit(3)
        if not target.keyed:
            driver.write_directly(scope, *rows(30, 35))
        driver.committer.revoke(scope)
        driver.committer.prune(incarnation, 1)
    finally:
        driver.close()
    assert target.rows() == Counter([*rows(0, 30), *([] if target.keyed else rows(30, 35)), *rows(40, 45)])


@pytest.mark.parametrize("commit", _VARIANTS)
def test_the_rights_of_the_docs_are_enough(tenant: Tenant, commit: str, tmp_path: Path) -> None:
    target = target_of(tenant, commit, tmp_path, keyed=commit == "upsert")
    tenant.grant(*_FIRST[tenant.kind], *(tenant.two_phase if commit == "two-phase" else _VARIANTS[commit]))
    findings = target.sink("target").check(schema_for(target), 2)
    assert [each for each in findings if each.fatal and not each.ok] == []
    live(target, new_incarnation())


def keep(tenant: Tenant) -> None:
    """All that is done with a head."""
    head = SqlHead(tenant.url, "orders")
    assert head.read() is None
    assert head.swap(None, b"first")
    assert head.swap(head.read(), b"second")
    head.put_record("a", b"content")
    assert head.blobs("requests").put("stop", b"now")
    assert head.blobs("requests").get("stop") == b"now"
    assert head.get_record("a") == b"content"
    head.delete_record("a")
    head.blobs("requests").delete("stop")
    assert head.list_records() == []
    head.close()


def test_the_rights_of_the_docs_are_enough_for_head_and_each_is_needed(tenant: Tenant) -> None:
    tenant.execute(tenant.statements(*_FIRST[tenant.kind])[0])
    with pytest.raises(HeadAccessError, match=r"denied") as failure:
        SqlHead(tenant.url, "orders").read()
    assert "docs/how-to/security.md" in failure.value.remedy or tenant.kind == "postgresql"
    granted = tenant.grant("checkpoint.head")
    keep(tenant)

    def refused() -> str:
        tenant.empty("eos_head", "eos_record", "eos_request")
        return refusal(lambda: keep(tenant))

    assert useless(tenant, granted, refused) == []


def test_no_right_of_the_docs_is_superfluous(tenant: Tenant, tmp_path: Path) -> None:
    """Without any one of them some variant does not work, and says so with its reason."""
    target = target_of(tenant, "upsert", tmp_path, keyed=True)
    granted = tenant.grant(*_FIRST[tenant.kind], *tenant.two_phase, "upsert")
    table = (SinkTable if tenant.kind == "mysql" else PostgresTable)(tenant.admin_url, tenant.table)

    def refused() -> str:
        return next(filter(None, map(refused_by, _VARIANTS)), "")

    def refused_by(commit: str) -> str:
        tenant.empty("eos_claim", "eos_witness", "eos_permit", "eos_slot")
        table.execute(f"DELETE FROM {tenant.table}")
        incarnation = new_incarnation()
        try:
            return refusal(lambda: live(variant(target, commit, tmp_path / incarnation), incarnation))
        finally:
            table.roll_back(incarnation)

    assert useless(tenant, granted, refused) == []


def useless(tenant: Tenant, granted: list[str], refused: Callable[[], str]) -> list[Right]:
    """Those without which nothing is refused. With all of them nothing is, either."""
    assert rights(granted)
    found = []
    for right in rights(granted):
        tenant.execute(right.revoked)
        why = refused()
        if not why:
            found.append(right)
        else:
            assert re.search(r"denied|not allowed|lacks|no schema", why), f"{right}: {why}"
        tenant.execute(*granted)
    assert refused() == ""
    return found


def refusal(act: Callable[[], None]) -> str:
    """Why it does not work; empty if it does."""
    try:
        act()
    except (ConnectorError, HeadError) as error:
        return str(error)
    return ""


_NARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), ("word", pa.string())])
_WIDE = pa.schema([*_NARROW, ("payload", pa.string())])


def making(tenant: Tenant, *, evolve: bool = False) -> Sink:
    """A sink that makes its table."""
    kind = MySqlSink if tenant.kind == "mysql" else PostgresSink
    return kind("target", tenant.url, tenant.table, create=True, evolve=evolve)


def test_tables_are_made_and_widened_by_the_rights_for_it_alone(tenant: Tenant) -> None:
    """A table that is there takes no more than its owner, or ALTER."""
    if tenant.kind == "mysql":
        create, alter, _ = rights(tenant.grant("every sink", _MAKING)[-1:])
        for right, sink, schema in ((create, making(tenant), _NARROW), (alter, making(tenant, evolve=True), _WIDE)):
            tenant.execute(right.revoked)
            with pytest.raises(TargetError, match="denied"):
                sink.open(schema)
            tenant.grant(_MAKING)
            sink.open(schema)
        return
    *_, create = rights(tenant.grant(_MAKING))
    tenant.execute(create.revoked)
    with pytest.raises(TargetError, match="permission denied for schema"):
        making(tenant).open(_NARROW)
    tenant.execute(f"CREATE TABLE {tenant.table} (id BIGINT NOT NULL, word TEXT)")
    tenant.execute(f"GRANT INSERT ON {tenant.table} TO {tenant.name}")
    with pytest.raises(TargetError, match="must be owner"):
        making(tenant, evolve=True).open(_WIDE)
    tenant.execute(*tenant.statements("evolve: add-columns, of a table that is there"))
    making(tenant, evolve=True).open(_WIDE)


@pytest.fixture
def pipeline(tenant: Tenant, services: Services, topic: TopicFactory, tmp_path: Path) -> Iterator[Pipeline]:
    """By this user, with head in the same database; its table is seen by an administrator."""
    tenant.table = TABLE
    kind = Pipeline if tenant.kind == "mysql" else PostgresPipeline
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with kind(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), tenant.admin_url) as made:
        made.environment["SINK_URL"] = tenant.url
        made.spec["checkpoint"]["head"] = "${env:SINK_URL}"
        yield made


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_a_pipeline_with_the_rights_of_the_docs_and_no_others(
    tenant: Tenant, pipeline: Pipeline, eos: CommandLine
) -> None:
    """It makes its table and widens it; and `eos doctor` finds all well. CREATE can go after the first start."""
    more = ["every sink", *tenant.two_phase, "checkpoint.head"] if tenant.kind == "mysql" else []
    granted = rights(tenant.grant(*more, _MAKING))
    (step,), (sink,) = pipeline.spec["transforms"], pipeline.spec["sinks"]
    whole = step["sql"]
    step["sql"] = whole.replace(", payload", "")
    sink["create"] = "if-missing"
    found = eos.run(["doctor", str(pipeline.write_spec())], pipeline.environment)
    assert found.code == 0, found.output
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    assert pipeline.shown.count() == _RECORDS
    tenant.execute(*(each.revoked for each in granted if each.privilege == "CREATE"))
    step["sql"] = whole
    sink["evolve"] = "add-columns"
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    rows = pipeline.shown.rows()
    assert Counter(row[:2] for row in rows.elements()) == Counter(row[:2] for row in pipeline.workload.expected)
    assert sum(row in pipeline.workload.expected for row in rows) == _RECORDS
    assert rows.total() == 2 * _RECORDS
