"""The command line: which mutants to try, the trials, and the report."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from typing import Annotated

import typer

from tests.mutants.catalogue import ALL
from tests.mutants.mutant import PROJECT, Mutant
from tests.mutants.trial import BaselineError, Trial, Verdict, Workshop, workshop


def main(
    wanted: Annotated[
        list[str] | None, typer.Argument(help="in a mutant's name, rule, path or tests; one is enough", metavar="TEXT")
    ] = None,
    *,
    services: Annotated[bool, typer.Option("--services", help="also those whose tests need Kafka or a server")] = False,
    at_once: Annotated[int, typer.Option(min=1, help="trials at the same time")] = 1,
    only_list: Annotated[bool, typer.Option("--list", help="print the mutants, and try none")] = False,
) -> None:
    """Break the product on purpose, one line at a time, and see that tests fail.

    A mutant is a wrong line with the tests that have to fail for it
    (tests/mutants/*.py). A copy of the project as it is, uncommitted changes
    included, gets one mutant at a time, and pytest runs its tests there. The
    work tree stays as it is.

    Caught: a test fails. Survived: all pass, so nothing tests what the line
    keeps: write that test. Not run: pytest could not collect or run the tests,
    which shows nothing. Exit code: 0 all are caught, 1 some are not, 2 the
    command line is wrong.

    Examples:

    python -m tests.mutants: all mutants whose tests need no service.

    python -m tests.mutants H26 savepoint/: those with "H26" or "savepoint/" in
    their name, rule, path or tests.

    python -m tests.mutants wal/ --list: those of wal/, with their places and
    tests; nothing runs.

    EOS_SERVICES=native python -m tests.mutants --services: also those whose
    tests run on real servers.

    To add a mutant, write it into the module of its area, and run it by its
    name.
    """
    texts = wanted or [""]
    mutants = chosen(texts, services=services)
    if not mutants:
        left = len(chosen(texts, services=True))
        why = f"{left} need services: add --services" if left else "--list prints all"
        message = f"no mutant has {' or '.join(map(repr, texts))} in its name, rule, path or tests ({why})"
        raise typer.BadParameter(message)
    if only_list:
        for mutant in mutants:
            typer.echo(f"{place(mutant)}: {mutant.name} ({mutant.rule}): {', '.join(mutant.caught_by)}")
        typer.echo(f"{len(mutants)} mutants")
        return
    tests = {test for mutant in mutants for test in mutant.caught_by}
    typer.echo(f"{len(mutants)} mutants. First, their {len(tests)} tests without a mutant.")
    with ExitStack() as stack:
        copies = [stack.enter_context(workshop()) for _ in range(at_once)]
        try:
            copies[0].check(tests)
        except BaselineError as failed:
            typer.echo(f"{failed}\nTests fail without a mutant: repair them first.")
            raise typer.Exit(1) from None
        alive = _report(mutants, copies)
    raise typer.Exit(1 if alive else 0)


def chosen(texts: Sequence[str], *, services: bool) -> list[Mutant]:
    """Return the mutants with one of these in their name, rule, path or tests. Those on services only on request."""
    return [
        mutant
        for mutant in sorted(ALL, key=lambda each: (each.path, each.name))
        if (services or not mutant.needs_services) and any(_has(mutant, text.lower()) for text in texts)
    ]


def _has(mutant: Mutant, text: str) -> bool:
    return any(text in each.lower() for each in (mutant.name, mutant.rule, mutant.path, *mutant.caught_by))


def place(mutant: Mutant) -> str:
    """Return file and line of the change."""
    return f"{mutant.path}:{mutant.line((PROJECT / mutant.path).read_text())}"


def trials(mutants: Sequence[Mutant], copies: Sequence[Workshop]) -> Iterator[tuple[Mutant, Trial]]:
    """Try each mutant, as many at a time as there are copies. Yields them as they end."""
    free: queue.SimpleQueue[Workshop] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(mutant: Mutant) -> Trial:
        copy = free.get()
        try:
            return copy.trial(mutant)
        finally:
            free.put(copy)

    pool = ThreadPoolExecutor(len(copies))
    try:
        under_way = {pool.submit(attempt, mutant): mutant for mutant in mutants}
        for ended in as_completed(under_way):
            yield under_way[ended], ended.result()
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C: what has not begun is not begun


def _report(mutants: Sequence[Mutant], copies: Sequence[Workshop]) -> list[str]:
    """Try them, print each as it ends, and return those that are not caught."""
    begun_s = time.monotonic()
    alive: list[str] = []
    for number, (mutant, trial) in enumerate(trials(mutants, copies), 1):
        left_min = (time.monotonic() - begun_s) / number * (len(mutants) - number) / 60
        line = f"{trial.verdict.value}: {mutant.name} ({mutant.rule}, {place(mutant)})"
        typer.echo(f"[{number}/{len(mutants)}, {left_min:.1f} min left] {line}")
        if trial.verdict is not Verdict.CAUGHT:
            alive.append(line)
            typer.echo(trial.output)
    typer.echo(f"{len(mutants) - len(alive)} of {len(mutants)} mutants are caught")
    for line in sorted(alive):
        typer.echo(f"  {line}")
    return alive
