"""Head in a SQL database, here SQLite: swap by version, immutable records, errors without secrets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.api.contracts import Finding
from connectors.sql.head import SqlHead, require_head
from connectors.sql.mysql.errors import ServerError
from eos.errors import HeadAccessError, HeadError, HeadFormatError, SpecError
from twophase.head import Versioned


def head_in(folder: Path, pipeline: str = "orders") -> SqlHead:
    return SqlHead(f"sqlite:///{folder}/head.db", pipeline)


def test_a_swap_lands_only_on_the_version_it_names(tmp_path: Path) -> None:
    head = head_in(tmp_path)
    assert head.read() is None
    assert not head.swap(Versioned(1, b""), b"no such version")
    assert head.swap(None, b"\x00one")
    assert not head.swap(None, b"again")
    assert head.swap(Versioned(1, b"\x00one"), b"two")
    assert not head.swap(Versioned(1, b"\x00one"), b"stale")
    seen = head_in(tmp_path).read()
    assert seen is not None
    assert (seen.version, seen.value) == (2, b"two")


def test_h29_a_swap_lands_only_on_the_value_it_names(tmp_path: Path) -> None:
    """After a fail-over or a restored dump the version is there again, by other swaps."""
    head = head_in(tmp_path)
    assert head.swap(None, b"one")
    assert not head.swap(Versioned(1, b"another one"), b"two")
    assert head.read() == Versioned(1, b"one")


def test_a_swap_lands_only_on_the_version_it_names_though_the_value_is_back(tmp_path: Path) -> None:
    head = head_in(tmp_path)
    assert head.swap(None, b"one")
    assert head.swap(Versioned(1, b"one"), b"two")
    assert head.swap(Versioned(2, b"two"), b"one")
    assert not head.swap(Versioned(1, b"one"), b"of a driver that slept")
    assert head.read() == Versioned(3, b"one")


def test_pipelines_do_not_see_each_other(tmp_path: Path) -> None:
    assert head_in(tmp_path, "orders").swap(None, b"value")
    head_in(tmp_path, "orders").put_record("r", b"content")
    assert head_in(tmp_path, "Orders").read() is None
    assert head_in(tmp_path, "Orders").list_records() == []


def test_a_record_never_changes(tmp_path: Path) -> None:
    head = head_in(tmp_path)
    head.put_record("b.json", b"content")
    head.put_record("b.json", b"content")
    with pytest.raises(HeadFormatError, match=r"b\.json"):
        head.put_record("b.json", b"other")
    head.put_record("a.json", b"")
    assert head.list_records() == ["a.json", "b.json"]
    assert head.get_record("a.json") == b""
    head.delete_record("b.json")
    head.delete_record("b.json")
    with pytest.raises(HeadFormatError, match="missing"):
        head.get_record("b.json")


def test_of_concurrent_swaps_exactly_one_lands(tmp_path: Path) -> None:
    heads = [head_in(tmp_path) for _ in range(4)]
    for _ in range(10):
        seen = heads[0].read()
        with ThreadPoolExecutor(4) as pool:
            landed = list(pool.map(lambda n, at=seen: heads[n].swap(at, b"%d" % n), range(4)))
        assert sum(landed) == 1


def test_an_unreachable_database_is_a_head_error(tmp_path: Path) -> None:
    head = SqlHead(f"sqlite:///{tmp_path}/missing/head.db", "orders")
    with pytest.raises(HeadError, match="cannot read"):
        head.read()
    with pytest.raises(HeadError, match="cannot swap"):
        head.swap(None, b"")


def test_a_url_that_is_none_is_a_spec_error_that_does_not_repeat_it() -> None:
    for url in ("secret", "nosuchdb://u:secret@h/d"):
        with pytest.raises(SpecError) as failure:
            SqlHead(url, "orders")
        assert "secret" not in str(failure.value)


def test_where_it_is_without_its_password() -> None:
    text = SqlHead("mysql+pymysql://user:secret@host:3306/db", "orders").describe()
    assert "host:3306/db" in text
    assert "secret" not in text


@pytest.mark.parametrize(("number", "waits"), [(1040, True), (2006, True), (1045, False)])
def test_r6_a_head_that_cannot_be_checked_is_not_claimed(
    number: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next statement may get a connection again: the run would rest on settings that nobody has seen."""

    def fail(_url: str) -> list[Finding]:
        raise ServerError(number, "no")

    monkeypatch.setattr("connectors.sql.head.kind_of", lambda _url: SimpleNamespace(head_requirements=fail))
    with pytest.raises(HeadError, match="cannot check the settings of the database") as failed:
        require_head("mysql+pymysql://u:p@h/d")
    assert failed.value.retriable is waits
    assert isinstance(failed.value, HeadAccessError) is not waits
