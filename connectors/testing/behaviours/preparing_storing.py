"""Level (b): what is prepared is listed and invisible, until one commit shows it or an abort removes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from connectors.testing.behaviours.storing import Storing
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.store_target import INCARNATION, StoreTarget, batches, name_of
from eos.errors import FencedError, LostCommittableError
from twophase.ids import Scope


class PreparingStoring(Storing):
    """See the module."""

    is_preparing = True

    def test_what_is_prepared_is_listed_and_not_seen(self, store: Any) -> None:
        names = [name_of(n) for n in range(3)]
        for n, name in enumerate(names):
            store.prepare(name, batches(*rows(n * 10, n * 10 + 3)))
        assert sorted(store.list(INCARNATION)) == names
        assert sorted(store.list("")) == names
        assert list(store.list("d" * 20)) == []
        assert self.seen(store) == Counter()
        assert store.commit("s", "", "one", [names[0], names[2]])
        assert list(store.list(INCARNATION)) == [names[1]]
        assert self.seen(store) == Counter([*rows(0, 3), *rows(20, 23)])

    def test_what_is_aborted_cannot_be_committed(self, store: Any) -> None:
        kept, gone = name_of(0), name_of(1)
        store.prepare(kept, batches(*rows(0, 3)))
        store.prepare(gone, batches(*rows(3, 5)))
        store.abort([gone, name_of(7)])
        store.abort([gone])
        assert list(store.list(INCARNATION)) == [kept]
        with pytest.raises(LostCommittableError):
            store.commit("s", "", "one", [kept, gone])
        assert (self.token(store, "s"), self.seen(store)) == ("", Counter())
        assert store.commit("s", "", "one", [kept])
        store.abort([kept])  # it is visible, and stays so
        assert self.seen(store) == Counter(rows(0, 3))

    def test_a_commit_that_comes_twice_adds_nothing(self, store: Any) -> None:
        store.prepare(name_of(0), batches(*rows(0, 3)))
        assert store.commit("s", "", "one", [name_of(0)])
        assert not store.commit("s", "", "one", [name_of(0)])
        with suppress(LostCommittableError):
            store.commit("s", "one", "two", [name_of(0)])
        assert self.seen(store) == Counter(rows(0, 3))

    def test_rows_that_end_in_an_error_are_listed_or_gone(self, store: Any) -> None:
        def broken() -> Iterator[pa.RecordBatch]:
            yield from batches(*rows(3, 5))
            raise OSError("the rows were given up")

        with pytest.raises(Exception, match="the rows were given up"):
            store.prepare(name_of(0), broken())
        store.abort(store.list(INCARNATION))
        assert list(store.list("")) == []
        assert self.seen(store) == Counter()

    def test_nobody_older_prepares_after_a_claim(self, driver: SinkDriver) -> None:
        """R5: a zombie task may prepare at any time. No decision names its rows, and they are removed."""
        scope = driver.permit(0)
        open_before, old = driver.writer(scope), driver.committer
        driver.write(open_before, *rows(0, 5))
        driver.start()
        with pytest.raises(FencedError):
            old.permit(Scope(driver.incarnation, 1, 0, 2))
        with pytest.raises(FencedError):
            old.claim(driver.incarnation, 1)
        with suppress(Exception):  # the start may have removed what was unfinished
            open_before.prepare()
        assert driver.target.rows() == Counter()
        driver.checkpoint(0, rows(0, 5))
        assert driver.target.rows() == Counter(rows(0, 5))
        assert driver.prepared() == []
        assert self._left(driver) == []

    def test_a_zombie_that_prepares_after_its_permit_was_revoked_never_lands(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        late, later = driver.writer(scope), driver.writer(scope, 1)
        driver.write(late, *rows(0, 5))
        driver.decided[0] = [driver.prepare(scope, *rows(0, 5))]
        driver.commit(0)
        driver.committer.revoke(scope, counted=True)
        with suppress(Exception):  # the commit may have removed what was unfinished
            late.prepare()
        driver.write(later, *rows(0, 5))
        assert later.prepare().rows == 5
        assert driver.target.rows() == Counter(rows(0, 5))
        assert driver.prepared() == [], "it is of a checkpoint that is committed"
        driver.checkpoint(1, rows(5, 8))
        assert driver.target.rows() == Counter(rows(0, 8))
        assert self._left(driver) == []

    def _left(self, driver: SinkDriver) -> list[str]:
        assert isinstance(driver.target, StoreTarget)
        return list(driver.target.store.list(""))
