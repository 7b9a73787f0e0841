"""Contracts of small stores: `TokenStore` (three methods) and `PreparingStore` (six methods).

A store object is picklable and holds configuration only. It opens connections inside each call, or keeps them in a
field that is not pickled. Every call may block, and may come from any thread of the driver, one at a time for each
slot. `PreparingStore.prepare` is the one call that is made in tasks.

Errors, for every call:

- `SinkUnavailableError`: the store does not answer now, or the caller cannot know whether a change landed. The
  framework reads the token and retries, so a lost answer is harmless.
- `BadRowError`: the store refuses a row. `TargetError`: a retry cannot help. Both stop the pipeline.

Invariant for both kinds: a restored backup of the store restores rows and tokens of one moment (H26).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from connectors.api.contracts import Finding


class TokenStore(Protocol):
    """A store that keeps a short text, the token, beside its rows, and changes both in one atomic step.

    Examples: a table of an embedded database, a table format with snapshot properties, a key-value store with
    transactions. Rows wait in the write-ahead log of the pipeline until the checkpoint is decided.
    """

    def applied(self, slot: str) -> str:
        """Return the token of a slot; empty if the slot has none.

        The answer includes every `apply` that has returned True, from any process (no stale read).

        Args:
            slot: the key of the token: at most 40 characters of ASCII letters, digits and `-`.
        """

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        """Add all rows and replace the token `expected` by `token`, in one atomic step.

        Return False, and change nothing, if the token of the slot is not `expected`. This comparison fences every
        older driver, so the store must make it part of the atomic step: of two calls with the same `expected`, at most
        one returns True. Call order: once for each checkpoint, in order, and without rows for a claim.

        `batches` may raise; the call then changes nothing and lets the error pass. When the call raises, the store may
        have changed, and if so, as a whole. Calls may overlap with calls of other processes.

        Args:
            slot: see `applied`.
            expected: the token as `applied` returned it; empty: the slot has none.
            token: at most 400 ASCII characters; opaque to the store.
            batches: all rows, in batches of bounded size; it can be read once.
        """

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """Return whether the store can be used, and takes rows of `schema`; for `eos doctor` and each start.

        A start with a fatal finding is refused, and names it. So each value of these types must fit: a row that
        `apply` refuses stops the pipeline. May create the table if the user asked for that. Raises nothing that the
        store answers or fails to answer, except SinkUnavailableError.

        Args:
            schema: the columns that `apply` is given; None: not known.
        """


class PreparingStore(Protocol):
    """A store that takes rows invisibly, and later makes many such transactions visible in one atomic step.

    Examples: a table format (data files, then one metadata commit), a service with staged uploads, staging tables.
    Tasks write into the store directly, in parallel.

    Invariants:

    - A prepared transaction is invisible, survives a crash of every process, and blocks no other transaction.
    - Nothing but `commit` makes rows visible, and only the transactions that it is given. So a zombie that prepares
      after its permit was revoked cannot land: no decision names its transaction. `list` shows it, and the framework
      aborts it with the next checkpoint.
    """

    def prepare(self, transaction: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Write all rows durably and invisibly under this name. Called in a task, once for a name.

        `batches` may raise; the call then lets the error pass. What is left behind is listed by `list`, or is
        nothing. Raises BadRowError, PrepareError, SinkUnavailableError: the checkpoint is aborted and run again.

        Args:
            transaction: unique for all time: at most 90 characters of ASCII lower-case letters, digits, `-` and `.`.
            batches: all rows of one task, in batches of bounded size; it can be read once.
        """

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        """Make all transactions visible and replace the token `expected` by `token`, in one atomic step.

        Return False, and change nothing, if the token of the slot is not `expected`. The comparison is a part of the
        atomic step, as for `TokenStore.apply`. Raises LostCommittableError, and changes nothing, if one of the
        transactions is not prepared. A committed transaction is not listed any more.

        Args:
            slot: see `TokenStore.applied`.
            expected: the token as `witness` returned it; empty: the slot has none.
            token: at most 400 ASCII characters; opaque to the store.
            transactions: names as given to `prepare`; empty for a claim and for a checkpoint without rows.
        """

    def abort(self, transactions: Sequence[str]) -> None:
        """Remove prepared transactions. Idempotent: unknown and committed names are ignored.

        When the call returns, no `commit` can make one of them visible, unless it was visible before.
        """

    def list(self, prefix: str) -> Sequence[str]:
        """Return the names of all prepared transactions that begin with `prefix`, also of unfinished ones.

        The answer includes every `prepare` that has returned, from any process (no stale listing).
        """

    def witness(self, slot: str) -> str:
        """Return the token of a slot; empty if the slot has none. See `TokenStore.applied`."""

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """Return whether the store can be used, and takes rows of `schema`. See `TokenStore.check`."""
