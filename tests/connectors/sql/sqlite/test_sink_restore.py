"""A start from a savepoint with the real driver, head, and a sink that counts checkpoints in slots."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eos.errors import FencedError, IdentityError
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, Job, World
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.messages import StateRescaled
from twophase.restore import Seed
from twophase.values import SinkState, SparkState, StartingPoint

BEGAN = {"kafka": StartingPoint({"t/0": 0})}
SEED = Seed("saved", 1, "query", "offsets 1", BEGAN, {"kafka": {"t/0": 2 * ROWS}}, 1.0)
"""After checkpoint 1."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With checkpoints 0 to 2."""
    made = World(tmp_path)
    driver = made.driver()
    driver.start()
    for number in range(3):
        made.run(driver, number, Job(made))
    driver.close()
    return made


def rows(world: World) -> Counter[object]:
    return Counter(row[0] for row in world.query("SELECT n FROM t"))


def go_on(world: World, *numbers: int) -> HeadValue:
    """Spark's folder is that of the savepoint; a start, and these checkpoints."""
    world.planned = SEED.checkpoint_id
    driver = world.driver()
    driver.start()
    for number in numbers:
        world.run(driver, number, Job(world))
    return driver.owned


def test_slots_are_counted_on_from_the_savepoint(world: World) -> None:
    old = world.driver()
    before = old.start()
    begun = world.driver().restore(SEED, expected=before, take_over=False)
    assert (begun.ended, begun.head.completed) == (before.incarnation, 1)
    with pytest.raises(FencedError):  # whoever still runs
        world.run(old, 3, Job(world))
    head = go_on(world, 2, 3)
    assert (head.completed, head.committed, head.incarnation) == (3, 3, begun.head.incarnation)
    twice = Counter(range(2 * ROWS, 3 * ROWS))
    assert rows(world) == Counter(range(4 * ROWS)) + twice
    assert world.query(f"SELECT checkpoint_id FROM eos_slot WHERE incarnation = '{head.incarnation}'") == [(3,)]
    go_on_again = world.driver()
    world.planned = 3
    go_on_again.start()
    assert rows(world).total() == 5 * ROWS


def test_a_lost_location(world: World) -> None:
    for name in ("head", "records"):
        shutil.rmtree(world.folder / name)
    with pytest.raises(IdentityError, match="another incarnation"):
        world.driver().restore(SEED, expected=None, take_over=False)
    assert not list((world.folder / "head").iterdir())
    begun = world.driver().restore(SEED, expected=None, take_over=True)
    assert (begun.ended, begun.head.epoch) == (None, 1)
    go_on(world, 2)
    assert rows(world) == Counter(range(3 * ROWS)) + Counter(range(2 * ROWS, 3 * ROWS))


def test_cut_short_before_the_sinks_are_taken_it_is_made_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = world.driver()
    before = looking.start()
    cut = world.driver()
    sink = cut.committers["s"]
    claim = sink.claim

    def only_the_old_one(incarnation: str, epoch: int, **rest: Any) -> None:
        assert incarnation == before.incarnation, "the process dies here"
        claim(incarnation, epoch, **rest)

    monkeypatch.setattr(sink, "claim", only_the_old_one)
    with pytest.raises(AssertionError, match="dies here"):
        cut.restore(SEED, expected=before, take_over=False)
    with pytest.raises(IdentityError) as refused:
        go_on(world)
    assert "was cut short" in refused.value.remedy
    again = world.driver()
    half = again.head.read()
    assert half is not None
    again.restore(SEED, expected=decode_head(half.value), take_over=False)
    go_on(world, 2)
    assert rows(world) == Counter(range(3 * ROWS)) + Counter(range(2 * ROWS, 3 * ROWS))


class Divided:
    """Spark at rest after the savepoint's checkpoint, with state, and what it answers when that is divided anew."""

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, _incarnation: str) -> SparkState:
        last = SEED.checkpoint_id
        return SparkState("query", last, last, {last: SEED.offsets_log}, {last: 2})

    def rewrite(self, _head: HeadValue, checkpoint_id: int, _state_partitions: int) -> StateRescaled:
        return StateRescaled(f"offsets {checkpoint_id}", 0.0, 0.0)

    def drop_plan(self, _incarnation: str, _checkpoint_id: int) -> None:
        raise AssertionError


def test_state_is_divided_anew_before_any_checkpoint_of_the_new_life(world: World) -> None:
    """No slot has counted anything in this life: they begin with the checkpoint that has no rows."""
    world.driver().restore(SEED, expected=world.driver().start(), take_over=False)
    divided, driver = Divided(), world.driver()
    driver.spark = divided
    done = driver.rescale(5, divided)
    assert (done.before, done.now, done.head.completed, driver.committers["s"].inspect(done.head.incarnation, ())) == (
        2,
        5,
        2,
        SinkState(done.head.incarnation, done.head.epoch, 2, counted=2),
    )
