"""The last lines of a log: bounded, of the right pipeline, and without secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spark_jobs.observe.log_lines import MASKING, mask_log, of_pipeline
from spark_jobs.observe.recent_lines import RecentLines, collected, tail

SECRET = "geheim-9a1c"


@pytest.fixture
def own_log(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    log = logging.getLogger("eos")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(MASKING, "secrets", frozenset())
    log.setLevel(logging.INFO)
    return log


def test_lines_are_kept_by_pipeline_and_masked(own_log: logging.Logger) -> None:
    orders, clicks = RecentLines(), RecentLines()
    mask_log(frozenset({SECRET}))
    with collected({"orders": [orders], "clicks": [clicks]}):
        with of_pipeline("orders"):
            own_log.info("url with %s", SECRET)
        with of_pipeline("another"):
            own_log.info("of nobody here")
        own_log.info("of all")
    own_log.info("too late")
    (mine, both), (theirs,) = orders.newest(9), clicks.newest(9)
    assert mine.endswith("[orders]: url with ***")
    assert both == theirs
    assert both.endswith("eos: of all")
    assert orders.newest(1) == [both]


def test_lines_are_bounded(own_log: logging.Logger) -> None:
    kept = RecentLines()
    with collected({"orders": [kept]}):
        for number in range(700):
            own_log.info("%d %s", number, "x" * 5_000)
    found = kept.newest(1_000)
    assert len(found) == 500
    assert " 699 xxx" in found[-1]
    assert max(map(len, found)) == 2_001


def test_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    assert tail(path, 10) is None
    path.write_bytes(b"")
    found = tail(path, 10)
    assert found is not None
    assert (found.lines, found.bytes) == ([], 0)
    path.write_bytes(b"".join(b"%06d %s\n" % (n, b"y" * 93) for n in range(10_000)) + b"\xff end")
    found = tail(path, 9_999)
    assert found is not None
    assert found.bytes == 10_000 * 101 + 5
    assert found.lines[-1] == "\ufffd end"
    assert len(found.lines) == 1 + 256 * 1024 // 101, "only the end is read, from a whole line on"
    assert all(line[6:8] == " y" for line in found.lines[:-1])
