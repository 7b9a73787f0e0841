"""Stores that answer or raise what their contract excludes: one error, and the token still tells what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.place import LogPlace
from connectors.owner import Owner
from connectors.stores.preparing import PreparingSink
from connectors.stores.sink import StoreLedger, StoreSink
from eos.errors import PrepareError, TargetError
from twophase.ids import Scope, TransactionId, sink_key

SCHEMA = pa.schema([("n", pa.int64())])
FIRST = Owner("4lgsrtorpfbg5vaj2omp", 1)


class Store:
    """A store in memory whose answers pass through `answer` and `flag`."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.rows: list[int] = []
        self.answer: Callable[[str], Any] = lambda token: token
        self.flag: Callable[[bool], Any] = lambda landed: landed
        self.found: Any = ()
        self.listed: Any = ()

    def applied(self, slot: str) -> str:
        return self.answer(self.tokens.get(slot, ""))  # type: ignore[no-any-return]

    witness = applied

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        if self.tokens.get(slot, "") != expected:
            return self.flag(False)  # type: ignore[no-any-return]
        self.rows += [n for batch in batches for n in batch.column(0).to_pylist()]
        self.tokens[slot] = token
        return self.flag(True)  # type: ignore[no-any-return]

    def check(self, schema: pa.Schema | None) -> Any:
        return self.found

    def prepare(self, transaction: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows += [n for batch in batches for n in batch.column(0).to_pylist()]
        self.answer("")

    def list(self, prefix: str) -> Any:
        return self.listed

    def abort(self, transactions: Any) -> None:
        self.answer("")

    def commit(self, slot: str, expected: str, token: str, transactions: Any) -> bool:
        return self.apply(slot, expected, token, iter(()))


def _raise(error: BaseException) -> Callable[[Any], Any]:
    def call(_found: object) -> Any:
        raise error

    return call


@pytest.mark.parametrize("answer", [None, -1, 0, b"", b"{}", ["a"]], ids=repr)
def test_a_token_that_is_no_text_is_not_taken_for_an_empty_slot(answer: object) -> None:
    store = Store()
    ledger = StoreLedger("out", store, "p")
    store.answer = lambda _token: answer
    words = f"sink out: the call that reads the token of the store returned a {type(answer).__name__}, not a text"
    with pytest.raises(TargetError, match=words):
        ledger.claim(FIRST, take_over=False, begins=-1, counted=-1)
    assert store.tokens == {}


@pytest.mark.parametrize("answer", [None, 1, "False", "no"], ids=repr)
def test_a_true_value_that_is_not_true_counts_no_rows(answer: object) -> None:
    """The store has not replaced the token: the rows would count as visible."""
    store = Store()
    ledger = StoreLedger("out", store, "p")
    store.flag = lambda _landed: answer
    with pytest.raises(TargetError, match=r"the call that replaces the token .* not True or False"):
        ledger.claim(FIRST, take_over=False, begins=-1, counted=-1)
    store.flag = lambda landed: landed
    ledger.claim(FIRST, take_over=False, begins=-1, counted=-1)  # the store has it: nothing is lost or done twice
    assert len(store.tokens) == 1


@pytest.mark.parametrize(
    "error", [SystemExit(0), ValueError("token tannin"), KeyError("x"), StopIteration()], ids=lambda e: type(e).__name__
)
def test_an_odd_error_of_a_store_names_sink_and_call(error: BaseException) -> None:
    store = Store()
    store.answer = _raise(error)
    with pytest.raises(
        TargetError, match=f"sink out: the call that reads the token of the store raised {type(error).__name__}"
    ):
        StoreLedger("out", store, "p").claim(FIRST, take_over=False, begins=-1, counted=-1)


@pytest.mark.parametrize("found", [None, 1, ["ok"], [None]], ids=repr)
def test_findings_that_are_none_are_refused_at_the_start(tmp_path: Path, found: object) -> None:
    store = Store()
    store.found = found
    sink = StoreSink("out", store, LogPlace(tmp_path))
    with pytest.raises(TargetError, match=r"sink out: `check` of the store returned .* not a sequence of Finding"):
        sink.open(SCHEMA)


@pytest.mark.parametrize("listed", [None, 7, "abc", [None], [b"a"]], ids=repr)
def test_a_listing_that_is_none_is_refused(listed: object) -> None:
    """A text would be taken for many names, and None for nothing prepared: transactions would be forgotten."""
    store = Store()
    store.listed = listed
    committer = PreparingSink("out", store).committer("p")
    with pytest.raises(TargetError, match=r"sink out: `list` of the store returned .* not a sequence of names"):
        committer.prepared(FIRST.incarnation)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    "error",
    [SystemExit(0), ConnectionResetError("reset"), OSError(28, "No space left")],
    ids=lambda e: type(e).__name__,
)
def test_an_error_of_a_store_in_a_task_aborts_the_checkpoint(error: BaseException, direct: bool) -> None:
    """It is run again as the restart strategy says (R8). It must neither end the process nor the pipeline."""
    store = Store()
    store.answer = _raise(error)
    sink = PreparingSink("out", store).open(SCHEMA)
    transaction = TransactionId(Scope(FIRST.incarnation, 1, 0, 1), sink_key("out"), 0, 1)
    batch = pa.record_batch([pa.array([1])], schema=SCHEMA)
    writer: Any = sink.direct_writer(transaction) if direct else sink.writer(transaction)

    def write() -> None:
        for _ in range(2):
            writer.write(batch)
        (writer.commit if direct else writer.prepare)()

    with pytest.raises(PrepareError, match=f"sink out: `prepare` of the store raised {type(error).__name__}") as failed:
        write()
    assert failed.value.retriable
