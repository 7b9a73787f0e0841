"""Every order in which drivers keep, restore and delete the state of a pipeline (`spark_jobs.query.kept_state`).

The choices are the product's own: which manifest a start takes, and which objects a driver may delete. Each request to
the store is one move, and so is each swap of head. A driver that never moves again has died; one that moves late was
frozen. The state after checkpoint N needs the files that batches N and N-1 have written.

A rescale rewrites the whole state as checkpoint N, which Spark cannot repeat. So this state is kept before N is
decided, and a start takes no older one. Its driver deletes nothing until then: it may be fenced, and the start of
another driver reads older states. A rescale that dies leaves a manifest of another plan than head decides later.

Looked at in every world: a driver that starts there finds a whole state, and so does each driver that restores one
and still owns head. A decision rests on a state that is whole. No state has a file of a rescale that was not decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from spark_jobs.query.state_manifest import choices, unneeded

DRIVERS: Final = 3
LAST: Final = 2
"""The number of the last checkpoint."""

RESCALES: Final = ((2, 2), (3, 1))
"""Worlds with a rescale: drivers, and the number of the last checkpoint. All three are too many worlds."""

MUTANTS: Final = (
    "decides before the state is kept",
    "keeps the newest state alone",
    "deletes what newer drivers have written",
    "lists before it publishes",
    "takes the oldest driver's state",
    "deletes at its start",
    "does not keep other drivers' manifests",
    "lists a store that leaves out a manifest which was there before",
)

MUTANTS_OF_RESCALE: Final = (
    "deletes before a rescale is decided",
    "decides a rescale before its state is kept",
    "takes a state of another plan",
    "takes files from other drivers' manifests",
)

Files = tuple[tuple[int, str], ...]
"""The batch that wrote a file, and the pack that has it."""

_RESCALE: Final = 0x100
"""Added to the number of a rescale, in the name of the pack that it writes: its plan is another one."""


class Violation(Exception):
    """A state that a start needs is gone."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver, between two requests."""

    epoch: int
    completed: int  # as it knows head
    step: str = "list"
    candidates: tuple[str, ...] = ()  # manifests to try, best first
    reading: Files = ()  # files whose packs are still to be read
    restored: Files = ()
    files: Files = ()  # of the newest state that it has
    kept: tuple[tuple[str, Files], ...] = ()  # manifests to keep
    keeping: int = -1  # the checkpoint whose state is being kept
    listed: frozenset[str] | None = None  # objects of others, once it has listed them
    deleting: tuple[str, ...] = ()
    rescaling: bool = False  # `keeping` is a rescale that is not decided


@dataclass(frozen=True, slots=True)
class Store:
    """Head, the objects, and the drivers."""

    epoch: int = 0
    completed: int = -1
    rescaled: frozenset[int] = frozenset()  # completed checkpoints that are rescales
    may_rescale: bool = False  # once in each world
    limit: int = DRIVERS
    last: int = LAST
    packs: frozenset[str] = frozenset()
    manifests: tuple[tuple[str, Files], ...] = ()
    drivers: tuple[Driver, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All objects."""
        return self.packs | {name for name, _ in self.manifests}

    def read(self, name: str) -> Files | None:
        """The content of a manifest."""
        return dict(self.manifests).get(name)

    def usable(self, completed: int, mutant: str = "") -> list[str]:
        """Return the manifests of decided plans that a start may take, best first."""
        found = choices(self.names, completed, completed if completed in self.rescaled else -1)
        if mutant == "takes a state of another plan":
            return found
        return [each for each in found if _rescales(self.read(each) or ()) == (int(each[:12]) in self.rescaled)]

    def is_whole(self, files: Files | None) -> bool:
        """Whether a manifest is there with all its packs."""
        return files is not None and all(pack in self.packs for _, pack in files)


def explore(mutant: str = "", drivers: int = DRIVERS, last: int = LAST, *, rescales: bool = False) -> int:
    """Look at every world; return their number. `rescales`: with one rescale. Raises Violation."""
    first = Store(may_rescale=rescales, limit=drivers, last=last)
    seen, stack = {first}, [first]
    while stack:
        store = stack.pop()
        check(store)
        for after in moves(store, mutant):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def check(store: Store) -> None:
    """Raise Violation where a driver that starts now finds no whole state."""
    found = (store.read(name) for name in store.usable(store.completed))
    if store.completed >= 1 and not any(map(store.is_whole, found)):
        raise Violation(f"no state for a start after checkpoint {store.completed}")
    for name in store.usable(store.completed):
        for batch, pack in store.read(name) or ():
            if _is_rescale(pack) != (batch in store.rescaled):
                raise Violation(f"{name} has a file of another plan than head decided for checkpoint {batch}")


def moves(store: Store, mutant: str) -> Iterator[Store]:
    """Each driver's next request, and the start of another driver."""
    for index, driver in enumerate(store.drivers):
        after = _Turn(store, driver, mutant).take()
        if after is not None:
            yield _with(*after, index)
        if driver.step == "decide" and (begun := _Turn(store, driver, mutant).rescale()) is not None:
            yield _with(*begun, index)
    if len(store.drivers) < store.limit:
        epoch = store.epoch + 1
        yield replace(store, epoch=epoch, drivers=(*store.drivers, Driver(epoch, store.completed)))


def _with(store: Store, driver: Driver, index: int) -> Store:
    return replace(store, drivers=(*store.drivers[:index], driver, *store.drivers[index + 1 :]))


@dataclass(frozen=True, slots=True)
class _Turn:
    store: Store
    driver: Driver
    mutant: str

    def take(self) -> tuple[Store, Driver] | None:
        """None: the driver has ended."""
        step = {
            "list": self._list,
            "read manifest": self._read_manifest,
            "read pack": self._read_pack,
            "decide": self._decide,
            "decide rescale": self._decide_rescale,
            "put pack": self._put_pack,
            "put manifest": self._put_manifest,
            "list others": self._list_others,
            "delete": self._delete,
        }.get(self.driver.step)
        return step() if step is not None else None

    def _go(self, step: str, **changes: object) -> tuple[Store, Driver]:
        return self.store, replace(self.driver, step=step, **changes)  # type: ignore[arg-type]

    def _list(self) -> tuple[Store, Driver]:
        found = self.store.usable(self.driver.completed, self.mutant)
        if self.mutant == "takes the oldest driver's state":
            found.sort(key=lambda name: (-int(name[:12]), name))
        listed = self.store.names if self.mutant == "deletes at its start" else None
        return self._go("read manifest", candidates=tuple(found), listed=listed)

    def _read_manifest(self) -> tuple[Store, Driver]:
        if not self.driver.candidates:
            if self.driver.completed >= 1 and self.store.epoch == self.driver.epoch:
                raise Violation(f"a start after checkpoint {self.driver.completed} finds no whole state")
            return self._rerun(-1) if self.driver.completed < 1 else self._go("ended")
        files = self.store.read(self.driver.candidates[0])
        if files is None:
            return self._go("read manifest", candidates=self.driver.candidates[1:])
        return self._go("read pack", reading=files, restored=files)

    def _read_pack(self) -> tuple[Store, Driver]:
        driver = self.driver
        if driver.reading:
            if driver.reading[0][1] in self.store.packs:
                return self._go("read pack", reading=driver.reading[1:])
            return self._go("read manifest", candidates=driver.candidates[1:])
        kept = ((driver.candidates[0], driver.restored),)
        began = int(driver.candidates[0][:12])
        if began < driver.completed and driver.completed in self.store.rescaled and self._owns():
            raise Violation(f"checkpoint {driver.completed} is a rescale, which a start repeats")
        if _rescales(driver.restored) != (began in self.store.rescaled) and self._owns():
            raise Violation(f"a start takes a state that head has not decided as checkpoint {began}")
        after = {"kept": kept, "files": driver.restored}
        if self.mutant == "deletes at its start":
            deleted = unneeded(driver.listed or (), _packs(kept), driver.epoch)
            return self._go("delete", deleting=tuple(deleted), keeping=began, **after)
        return self._rerun(began, **after)

    def _rerun(self, began: int, **changes: object) -> tuple[Store, Driver]:
        """Where it begins before head's newest checkpoint, Spark runs this batch again; its state is new."""
        if began == self.driver.completed:
            return self._go("decide", keeping=began, **changes)
        return self._go("put pack", keeping=self.driver.completed, **changes)

    def _decide(self) -> tuple[Store, Driver]:
        driver = self.driver
        number = driver.completed + 1
        if number > self.store.last or self.store.epoch != driver.epoch:
            return self._go("ended")
        rests_on = driver.kept[-1][1] if driver.kept else None
        skips = self.mutant == "decides before the state is kept"
        if number >= 1 and not skips and not self.store.is_whole(rests_on):
            raise Violation(f"checkpoint {number} is decided on a state that is not whole")
        step = "decide" if skips and number % 2 else "put pack"
        return replace(self.store, completed=number), replace(driver, completed=number, keeping=number, step=step)

    def rescale(self) -> tuple[Store, Driver] | None:
        """Spark rewrites the state as the next checkpoint, which is not decided yet. None: nothing to rewrite."""
        driver = self.driver
        number = driver.completed + 1
        if number > self.store.last or number < 1 or not driver.kept or not self.store.may_rescale:
            return None
        if self.mutant == "decides a rescale before its state is kept":
            if not self._owns():
                return self._go("ended")
            rescaled = self.store.rescaled | {number}
            store = replace(self.store, completed=number, rescaled=rescaled, may_rescale=False)
            return store, replace(driver, completed=number, keeping=number, rescaling=True, step="put pack")
        store, driver = self._go("put pack", keeping=number, rescaling=True)
        return replace(store, may_rescale=False), driver

    def _decide_rescale(self) -> tuple[Store, Driver]:
        number = self.driver.keeping
        if not self._owns():
            return self._go("ended")
        rescaled = self.store.rescaled | {number}
        driver = replace(self.driver, completed=number, rescaling=False, step="list others")
        return replace(self.store, completed=number, rescaled=rescaled), driver

    def _is_undecided(self) -> bool:
        return self.driver.rescaling and self.driver.keeping > self.driver.completed

    def _owns(self) -> bool:
        return self.store.epoch == self.driver.epoch

    def _put_pack(self) -> tuple[Store, Driver]:
        driver, number = self.driver, self.driver.keeping
        rescales = driver.rescaling or number in self.store.rescaled
        pack = f"{driver.epoch:08d}.{number + _RESCALE * rescales:016x}.files"
        older = {batch: at for batch, at in self._known() if batch == number - 1 and not rescales}
        files = tuple(sorted({**older, number: pack}.items()))
        driver = replace(driver, files=files, step="put manifest")
        if self.mutant == "lists before it publishes":
            driver = self._having_listed(driver)
        return replace(self.store, packs=self.store.packs | {pack}), driver

    def _known(self) -> Files:
        if self.mutant != "takes files from other drivers' manifests":
            return self.driver.files
        newest_first = sorted(self.driver.kept, key=lambda each: -int(each[0][13:21]))
        return tuple(file for _, files in newest_first for file in files)

    def _put_manifest(self) -> tuple[Store, Driver]:
        driver = self.driver
        name = f"{driver.keeping:012d}.{driver.epoch:08d}.state"
        manifests = tuple(sorted({**dict(self.store.manifests), name: driver.files}.items()))
        kept = (*(each for each in driver.kept if each[0] != name), (name, driver.files))
        waits = self._is_undecided() and self.mutant != "deletes before a rescale is decided"
        step = "decide rescale" if waits else "list others"
        return replace(self.store, manifests=manifests), replace(driver, kept=kept, step=step)

    def _having_listed(self, driver: Driver) -> Driver:
        """The first time alone. Manifests are read in the same move, since none of them ever changes."""
        if driver.listed is not None:
            return driver
        listed, kept = self.store.names, dict(driver.kept)
        if self.mutant == "lists a store that leaves out a manifest which was there before":
            others = [name for name, _ in self.store.manifests if int(name[13:21]) != driver.epoch]
            listed -= {*others[-1:]}
        if self.mutant != "does not keep other drivers' manifests":
            for name in choices(listed, driver.keeping):
                kept.setdefault(name, self.store.read(name) or ())
        return replace(driver, listed=listed, kept=tuple(kept.items()))

    def _list_others(self) -> tuple[Store, Driver]:
        driver = self._having_listed(self.driver)
        oldest = driver.keeping if self.mutant == "keeps the newest state alone" else driver.keeping - 1
        kept = [each for each in driver.kept if int(each[0][:12]) >= oldest]
        kept.sort(key=lambda each: (int(each[0][:12]), int(each[0][13:21]) == driver.epoch))
        names = {*(driver.listed or ()), *_own(self.store, driver.epoch)}
        epoch = 99 if self.mutant == "deletes what newer drivers have written" else driver.epoch
        deleted = tuple(unneeded(names, _packs(tuple(kept)), epoch))
        listed = (driver.listed or frozenset()) - {*deleted}
        return self.store, replace(driver, step="delete", kept=tuple(kept), listed=listed, deleting=deleted)

    def _delete(self) -> tuple[Store, Driver]:
        if not self.driver.deleting:
            if self.mutant == "deletes at its start" and self.driver.completed != self.driver.keeping:
                return self._rerun(self.driver.keeping)
            return self._go("decide rescale" if self._is_undecided() else "decide")
        name, *others = self.driver.deleting
        manifests = tuple(each for each in self.store.manifests if each[0] != name)
        store = replace(self.store, packs=self.store.packs - {name}, manifests=manifests)
        return store, replace(self.driver, deleting=tuple(others))


def _rescales(files: Files) -> bool:
    """Whether a rescale has written the newest files."""
    return bool(files) and _is_rescale(files[-1][1])


def _is_rescale(pack: str) -> bool:
    return int(pack.split(".")[1], 16) >= _RESCALE


def _packs(kept: tuple[tuple[str, Files], ...]) -> Mapping[str, frozenset[str]]:
    return {name: frozenset(pack for _, pack in files) for name, files in kept}


def _own(store: Store, epoch: int) -> Iterator[str]:
    for name in store.names:
        if (int(name[13:21]) if name.endswith(".state") else int(name[:8])) == epoch:
            yield name
