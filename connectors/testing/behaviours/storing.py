"""The store itself, called without a sink: its token is compared and replaced with the rows, in one step."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, Final

import pyarrow as pa
import pytest

from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.store_target import INCARNATION, ROWS, VALUES, StoreTarget, batches, name_of
from connectors.testing.target import Target
from connectors.testing.unsteady import SteadySink, Unsteady
from eos.errors import ConnectorError
from twophase.ids import Scope, TransactionId, sink_key

_TOKENS: Final = ("a", "b" * 400, '{"a":"\\"b\\" c"}', "it's; DROP TABLE eos_token; --", "%s %(x)s ? :x", "\\N\\t")
_WAIT_S: Final = 60.0


class Storing:
    """See the module."""

    is_preparing: ClassVar[bool]
    types: ClassVar[Sequence[pa.DataType]] = tuple(kind for kind, _ in VALUES)
    """Types that the store takes without changing a value. Leave out those that its `check` refuses."""

    def make_store(self, folder: Path, schema: pa.Schema) -> Any:
        """Return a store that is empty, for rows of this schema. `folder` exists. Called once for a folder."""
        raise NotImplementedError

    def read(self, store: Any) -> pa.Table:
        """Return all rows that any reader sees there now. Should share no code with the store."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        """A store for tests that call it themselves."""
        return self.make_store(self._folder(tmp_path), ROWS)

    def seen(self, store: Any) -> Counter[Row]:
        """Return the visible rows."""
        found = self.read(store)
        return Counter(zip(found.column("n").to_pylist(), found.column("text").to_pylist(), strict=True))

    def token(self, store: Any, slot: str) -> str:
        """Return the token of a slot."""
        return str(store.witness(slot) if self.is_preparing else store.applied(slot))

    def put(self, store: Any, slot: str, expected: str, token: str, number: int, *written: Row) -> bool:
        """Put rows and the token, in the store's own way."""
        if not self.is_preparing:
            return bool(store.apply(slot, expected, token, batches(*written)))
        names = [name_of(number)] if written else []
        if written:
            store.prepare(names[0], batches(*written))
        return bool(store.commit(slot, expected, token, names))

    def test_a_new_slot_has_no_token(self, store: Any) -> None:
        assert self.token(store, "s") == ""
        assert not self.put(store, "s", "other", "next", 0, *rows(0, 3))
        assert self.token(store, "s") == ""
        assert self.seen(store) == Counter()

    def test_a_token_comes_back_to_the_letter(self, store: Any) -> None:
        expected = ""
        for number, token in enumerate(_TOKENS):
            assert self.put(store, "slot-1", expected, token, number)
            assert self.token(store, "slot-1") == token
            expected = token
        assert self.token(store, "slot-2") == ""
        assert self.put(store, "slot-2", "", "mine", 99, *rows(0, 2))
        assert (self.token(store, "slot-1"), self.token(store, "slot-2")) == (expected, "mine")
        assert self.seen(store) == Counter(rows(0, 2))

    def test_a_put_with_another_expected_token_changes_nothing(self, store: Any) -> None:
        assert self.put(store, "s", "", "one", 0, *rows(0, 3))
        for wrong in ("", "two", "on", "ONE", "one "):
            assert not self.put(store, "s", wrong, "two", 1, *rows(3, 5))
            assert (self.token(store, "s"), self.seen(store)) == ("one", Counter(rows(0, 3)))
            if self.is_preparing:
                store.abort([name_of(1)])
        assert not self.put(store, "s", "", "two", 1)

    def test_of_two_that_expect_the_same_one_lands(self, store: Any) -> None:
        assert self.put(store, "s", "", "0", 0)
        for number in range(1, 6):
            shares = [rows(number * 100 + n * 10, number * 100 + n * 10 + 5) for n in range(4)]
            before, expected = self.seen(store), self.token(store, "s")

            def put(n: int, number: int = number, shares: Any = shares, expected: str = expected) -> bool:
                return self._landed(store, expected, f"{number}-{n}", number * 10 + n, *shares[n])

            with ThreadPoolExecutor(4) as pool:
                landed = list(pool.map(put, range(4)))
            token = self.token(store, "s")
            assert sum(landed) <= 1
            # A store may call a change unknown that has landed: the token tells, and the rows are those of its token.
            winner = next((n for n in range(4) if token == f"{number}-{n}"), None)
            assert not any(landed) or landed.index(True) == winner
            assert self.seen(store) == before + Counter([] if winner is None else shares[winner])

    def test_another_process_sees_it(self, store: Any) -> None:
        assert self.put(store, "s", "", "one", 0, *rows(0, 3))
        other = pickle.loads(pickle.dumps(store))
        assert self.token(other, "s") == "one"
        assert self.put(other, "s", "one", "two", 1, *rows(3, 5))
        assert not self.put(store, "s", "one", "two", 2, *rows(5, 7))
        assert self.token(store, "s") == "two"
        assert self.seen(store) == Counter(rows(0, 5))

    def test_a_frozen_driver_lands_nothing_after_a_claim(self, store: Any) -> None:
        """H28: it has begun, and sleeps. A claim replaces the token meanwhile, or waits until it has landed."""
        assert self.put(store, "s", "", "one", 0, *rows(0, 3))
        reached, go = Event(), Event()

        def slowly() -> Iterator[pa.RecordBatch]:
            yield from batches(*rows(3, 5))
            reached.set()
            assert go.wait(_WAIT_S)

        def frozen() -> bool:
            if self.is_preparing:
                store.prepare(name_of(1), slowly())
                return bool(store.commit("s", "one", "frozen", [name_of(1)]))
            with suppress(ConnectorError):
                return bool(store.apply("s", "one", "frozen", slowly()))
            return False

        with ThreadPoolExecutor(2) as pool:
            older = pool.submit(frozen)
            assert reached.wait(_WAIT_S)
            claim = pool.submit(self._landed, store, "one", "claimed", 2)
            with suppress(TimeoutError):
                claim.result(2)  # a store with locks has the claim wait
            claimed_first = claim.done() and claim.result()
            go.set()
            landed, claimed = older.result(_WAIT_S), claim.result(_WAIT_S)
        assert landed != claimed or not landed
        assert not (claimed_first and landed)
        assert self.token(store, "s") == ("frozen" if landed else "claimed" if claimed else "one")
        assert self.seen(store) == Counter(rows(0, 5) if landed else rows(0, 3))

    @pytest.mark.parametrize("seed", range(3))
    def test_answers_of_the_store_are_lost(self, target: Target, seed: int) -> None:
        """R7: a call lands and its answer does not, or the call never arrives. Each row is there once."""
        assert isinstance(target, StoreTarget)
        unsteady = Unsteady(target.store, seed)
        driver = SinkDriver(target)
        driver.sink = SteadySink(target.sink_of(driver.name, unsteady).open(ROWS))
        expected = Counter[Row]()
        for number in range(8):
            if number % 3 == 0:
                driver.start()
            share = rows(number * 10, number * 10 + 4)
            driver.checkpoint(number, share)
            expected.update(share)
            assert target.rows() == expected
        driver.start()
        assert target.rows() == expected
        assert unsteady.lost, "no answer was lost: the test shows nothing"

    @pytest.mark.parametrize("kind", [kind for kind, _ in VALUES], ids=str)
    def test_values_of_each_type_come_back(self, tmp_path: Path, kind: pa.DataType) -> None:
        if kind not in self.types:
            pytest.skip(f"not applicable: the store does not take {kind}")
        (values,) = [each for found, each in VALUES if found == kind]
        schema = pa.schema([("n", pa.int64()), ("value", kind)])
        target = StoreTarget(tmp_path / "target", self.make_store, self.read, self.is_preparing, schema=schema)
        written = pa.record_batch([pa.array(range(len(values)), pa.int64()), pa.array(values, kind)], schema=schema)
        sink = target.sink("t").open(schema)
        scope = Scope(INCARNATION, 1, 0)
        committer = sink.committer("p")
        committer.inspect(INCARNATION, ())
        committer.claim(INCARNATION, 1)
        committer.permit(scope)
        writer = sink.writer(TransactionId(scope, sink_key("t"), 0, 1))
        writer.write(written)
        committer.commit(0, [writer.prepare()])
        found = self.read(target.store).sort_by("n")
        assert found.column("value").to_pylist() == written.column("value").to_pylist()
        committer.close()

    def test_a_store_that_cannot_take_the_columns_is_refused_at_the_start(self, store: Any) -> None:
        """Before anything is read: a row that is refused later would stop the pipeline."""
        wrong = pa.schema([("n", pa.int64()), ("text", pa.string()), ("no_such_column_there", pa.int64())])
        fatal = [each for each in store.check(wrong) if each.fatal and not each.ok]
        fits = [each for each in store.check(ROWS) if each.fatal and not each.ok]
        assert fits == []
        assert all(each.check and each.detail and each.remedy for each in fatal)

    def _landed(self, store: Any, expected: str, token: str, number: int, *written: Row) -> bool:
        with suppress(ConnectorError):
            return self.put(store, "s", expected, token, number, *written)
        return False

    def _folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "alone"
        folder.mkdir()
        return folder
