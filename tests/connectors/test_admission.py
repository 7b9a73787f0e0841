from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.admission import admit_offsets as admit

_splits = st.dictionaries(st.sampled_from([f"t/{n}" for n in range(6)]), st.integers(0, 10_000), max_size=6)


@given(start=_splits, latest=_splits, cap=st.one_of(st.none(), st.integers(1, 5_000)))
def test_takes_all_there_is_up_to_the_cap_and_never_more(
    start: dict[str, int], latest: dict[str, int], cap: int | None
) -> None:
    ends = admit(start, latest, cap)
    taken = {split: end - start.get(split, 0) for split, end in ends.items()}
    backlog = {split: max(end - start.get(split, 0), 0) for split, end in latest.items()}
    assert all(0 <= taken[split] <= backlog[split] for split in backlog)
    total = sum(backlog.values())
    assert sum(taken.values()) == (total if cap is None else min(total, cap))


def test_all_catch_up_together() -> None:
    assert admit({"a": 0, "b": 100}, {"a": 900, "b": 200}, 100) == {"a": 25 + 46 + 1, "b": 100 + 25 + 3}


def test_no_split_starves_behind_a_large_one() -> None:
    assert admit({}, {"a": 1_000_000, "b": 5}, 1000)["b"] == 5


def test_a_new_split_begins_at_its_first_offset() -> None:
    assert admit({}, {"a": 5}, None) == {"a": 5}
