"""Stores with one mistake each. Not collected: test_wrong_stores.py expects tests of their suites to fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from examples.plugin_shelf.eos_shelf.store import SqliteStore
from examples.stores.preparing_store import FolderStore
from tests.connectors.stores.test_examples import TestPreparingStore as _Preparing
from tests.connectors.stores.test_examples import TestTokenStore as _Token


class ForgetsTheToken(SqliteStore):
    """The rows land, and the token stays as it was."""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        first = next(batches, None)
        rows = iter(()) if first is None else chain([first], batches)
        return super().apply(slot, expected, token if first is None else expected, rows)


class AppliesTwice(SqliteStore):
    """Each row is inserted twice."""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        return super().apply(slot, expected, token, (each for batch in batches for each in (batch, batch)))


class IsNotAtomic(SqliteStore):
    """The rows are one transaction, and the token is the next one."""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        for batch in batches:
            if not super().apply(slot, expected, expected, iter([batch])):
                return False
        return super().apply(slot, expected, token, iter(()))


class IgnoresTheExpectedToken(SqliteStore):
    """Whoever comes, lands."""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        return super().apply(slot, self.applied(slot), token, batches)


class HasOneToken(SqliteStore):
    """All slots share one token."""

    def applied(self, slot: str) -> str:
        return super().applied("all")

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        return super().apply("all", expected, token, batches)


class KeepsTheTokenInMemory(SqliteStore):
    """The token is not in the store: another process, or a restored backup, does not have it."""

    def applied(self, slot: str) -> str:
        return _MEMORY.get((str(self.path), slot), "")

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        if self.applied(slot) != expected:
            return False
        landed = super().apply(slot, super().applied(slot), token, batches)
        _MEMORY[str(self.path), slot] = token
        return landed


class CutsTheToken(SqliteStore):
    """The token's column is too short."""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        return super().apply(slot, expected[:255], token[:255], batches)


_MEMORY: dict[tuple[str, str], str] = {}


class LosesWhatIsPrepared(FolderStore):
    """A prepared transaction is gone at once."""

    def prepare(self, transaction: str, batches: Iterator[pa.RecordBatch]) -> None:
        super().prepare(transaction, batches)
        self.abort([transaction])


class ShowsWhatIsPrepared(FolderStore):
    """Prepared rows are visible."""

    def read(self) -> Iterator[pa.RecordBatch]:
        for path in sorted(self._data.glob("*.arrow")):
            with pa.ipc.open_stream(path) as batches:
                yield from batches


class AbortLies(FolderStore):
    """An abort does nothing."""

    def abort(self, transactions: Sequence[str]) -> None:
        pass


class AbortRemovesWhatIsCommitted(FolderStore):
    """An abort also removes visible rows."""

    def abort(self, transactions: Sequence[str]) -> None:
        with self._locked():
            manifest = self._manifest()
            manifest["files"] = [name for name in manifest["files"] if name not in transactions]
            self._replace(manifest)
        super().abort(transactions)


class ListIsIncomplete(FolderStore):
    """The newest prepared transaction is not in the listing yet."""

    def list(self, prefix: str) -> Sequence[str]:
        return super().list(prefix)[:-1]


class CommitIgnoresTheExpectedToken(FolderStore):
    """Whoever comes, lands."""

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        return super().commit(slot, self.witness(slot), token, transactions)


class CommitForgetsTheToken(FolderStore):
    """The rows are shown, and the token stays as it was."""

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        return super().commit(slot, expected, expected if transactions else token, transactions)


class CommitIsNotAtomic(FolderStore):
    """One transaction after another, and the token at the end."""

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        for each in transactions:
            if not super().commit(slot, expected, expected, [each]):
                return False
        return super().commit(slot, expected, token, ())


class CommitSkipsWhatIsMissing(FolderStore):
    """A transaction that is not prepared is passed over."""

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        return super().commit(slot, expected, token, [each for each in transactions if each in self.list("")])


TOKEN_STORES: Mapping[type[SqliteStore], Sequence[str]] = {
    ForgetsTheToken: ("another_process_sees_it", "a_second_commit_adds_nothing"),
    AppliesTwice: ("another_process_sees_it", "rows_are_seen_with_the_commit_and_not_before"),
    IsNotAtomic: ("rows_that_end_in_an_error_leave_nothing", "many_batches_are_one_step"),
    IgnoresTheExpectedToken: (
        "a_put_with_another_expected_token_changes_nothing",
        "a_frozen_driver_lands_nothing_after_a_claim",
        "another_process_sees_it",
    ),
    HasOneToken: ("a_token_comes_back_to_the_letter", "two_pipelines_and_two_sinks_share_a_place"),
    KeepsTheTokenInMemory: ("h26_a_copy_counts_what_it_shows", "h26_a_copy_from_before_the_claim_is_noticed"),
    CutsTheToken: ("a_token_comes_back_to_the_letter",),
}
PREPARING_STORES: Mapping[type[FolderStore], Sequence[str]] = {
    LosesWhatIsPrepared: (
        "what_is_prepared_is_listed_and_not_seen",
        "rows_are_seen_with_the_commit_and_not_before",
    ),
    ShowsWhatIsPrepared: (
        "what_is_prepared_is_listed_and_not_seen",
        "rows_are_seen_with_the_commit_and_not_before",
    ),
    AbortLies: ("what_is_aborted_cannot_be_committed", "what_is_aborted_is_never_seen"),
    AbortRemovesWhatIsCommitted: ("what_is_aborted_cannot_be_committed",),
    ListIsIncomplete: (
        "what_is_prepared_is_listed_and_not_seen",
        "a_start_commits_what_is_decided_and_aborts_the_rest",
    ),
    CommitIgnoresTheExpectedToken: (
        "a_put_with_another_expected_token_changes_nothing",
        "a_frozen_driver_lands_nothing_after_a_claim",
    ),
    CommitForgetsTheToken: ("a_commit_that_comes_twice_adds_nothing", "h26_a_sink_counts_what_it_shows"),
    CommitIsNotAtomic: ("what_is_aborted_cannot_be_committed",),
    CommitSkipsWhatIsMissing: ("what_is_aborted_cannot_be_committed",),
}
"""By store: the tests of its suite that must fail, without `test_`."""


def _token_suite(store: type[SqliteStore]) -> type[_Token]:
    class Suite(_Token):
        def make_store(self, folder: Path, schema: pa.Schema) -> SqliteStore:
            right = super().make_store(folder, schema)
            return store(right.path, right.table)

    return Suite


def _preparing_suite(store: type[FolderStore]) -> type[_Preparing]:
    class Suite(_Preparing):
        def make_store(self, folder: Path, schema: pa.Schema) -> FolderStore:
            return store(folder)

    return Suite


for _store in TOKEN_STORES:
    globals()[f"Test{_store.__name__}"] = _token_suite(_store)
for _other in PREPARING_STORES:
    globals()[f"Test{_other.__name__}"] = _preparing_suite(_other)
