"""The comparison's pure parts: statistics, what /proc says, the plan, the file, the tables and the picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.bench.comparison import chart, goals, processes, report, results, tables
from benchmarks.bench.comparison.plan import Plan
from benchmarks.bench.comparison.results import COLD, LATENCY, WARM, Machine, Result
from benchmarks.bench.comparison.statistics import medians, percentile, ratios
from benchmarks.bench.comparison.systems import systems, without
from benchmarks.bench.formats.report import is_of_formats

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "benchmarks.md").read_text()
RATE = "rows_per_s_from_first_read"
MACHINE = Machine("2026-11-22", 2, 24, "Apache Kafka 4.3.0", "MySQL 9.7.4", "docker")


def _cold(system: str, number: int, rate: float, **more: float) -> Result:
    return Result(system, COLD, 1_000_000, number, {RATE: rate, **more})


RUNS = [
    *(_cold("raw", number, rate) for number, rate in ((1, 100.0), (2, 400.0), (3, 200.0))),
    *(
        _cold("eos-two-phase", number, rate, cpu_s_per_million_system=30.04)
        for number, rate in ((1, 90.0), (2, 200.0), (3, 160.0))
    ),
    _cold("flink-xa", 1, 70.0),
    Result("flink-xa", COLD, 1_000_000, 2, {}, error="it ended with 1"),
    Result(
        "eos-two-phase",
        WARM,
        1_000_000,
        1,
        {"rows_per_s_warm": 233_066.4, "rows_per_s_warm_first_to_all_visible": 250_000.4},
    ),
    Result("eos-two-phase", LATENCY, 120_004, 1, {"ms_p50": 210.4, "ms_p99": 480.6}, disturbed=True),
]
ENTRIES: list[Result | Machine] = [MACHINE, *RUNS]


def test_a_ratio_is_of_one_round_and_then_the_median_is_taken() -> None:
    assert medians(RUNS[:6]) == {
        "raw": {RATE: 200.0},
        "eos-two-phase": {RATE: 160.0, "cpu_s_per_million_system": 30.04},
    }
    assert ratios(RUNS[:7], RATE, "raw") == pytest.approx({"raw": 1.0, "eos-two-phase": 0.8, "flink-xa": 0.7})
    assert ratios(RUNS[3:6], RATE, "raw") == {}


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)])
def test_a_share_of_all_values_is_at_or_below_the_percentile(share: float, value: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], share) == value


def test_a_tree_of_processes_takes_what_its_ended_children_took() -> None:
    stat = "{pid} (java (x) 1) S {parent} 0 0 0 -1 0 0 0 0 0 {cpu} 20 0 9 0 100 1000 256 0 0"
    texts = {
        7: stat.format(pid=7, parent=1, cpu="100 50 30 20"),
        8: stat.format(pid=8, parent=7, cpu="300 0 0 0"),
        9: stat.format(pid=9, parent=8, cpu="0 100 0 0"),
        10: stat.format(pid=10, parent=1, cpu="999 0 0 0"),
    }
    found = {pid: processes.process(text) for pid, text in texts.items()}
    assert processes.tree(found, [7, 4711]) == {7, 8, 9}
    cpu_s, rss_mb = processes.used(found, [7])
    assert (cpu_s, rss_mb) == (6.0, 3.0)  # at 100 ticks a second and 4 KiB a page


def test_connections_are_those_that_are_open_to_the_port() -> None:
    lines = ["head", *(f"0: 0100007F:{here} 0100007F:{there} {state} 0 0 0 0 0 {here}" for here, there, state in (
        ("C001", "33F2", "01"), ("33F2", "C001", "01"), ("C002", "33F2", "06"), ("C003", "33F2", "01")
    ))]  # fmt: skip
    assert processes.connected("\n".join(lines), 0x33F2) == {"socket:[C001]", "socket:[C003]"}
    assert processes.busy("cpu  100 100 100 999 999 50 25 25 7 7\ncpu0 1\n") == 4.0


def test_the_systems_take_turns_and_only_where_they_have_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    known = systems()
    plan = Plan([known[name] for name in ("raw", "eos-log", "spark-jdbc")], [COLD, WARM, LATENCY], [10, 20], 2, 1)
    steps = [(step.kind, step.rows, step.round, step.system.name) for step in plan.steps()]
    assert steps[:4] == [
        (COLD, 10, 1, "raw"),
        (COLD, 10, 1, "eos-log"),
        (COLD, 10, 1, "spark-jdbc"),
        (COLD, 10, 2, "raw"),
    ]
    assert [step[3] for step in steps if step[0] == WARM] == ["eos-log"] * 4
    assert [step[1:] for step in steps if step[0] == LATENCY] == [(120_004, 1, "eos-log"), (120_004, 1, "spark-jdbc")]
    monkeypatch.delenv("EOS_PEERS", raising=False)
    assert without() == {"flink-xa", "flink-alo", "debezium-insert", "debezium-upsert"}


def test_a_file_of_results_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(f"{results.line(entry)}\n" for entry in ENTRIES))
    assert results.read([path]) == ([MACHINE], RUNS)
    path.write_text(f"{results.line(MACHINE)}\n{{}}\n")
    with pytest.raises(ValueError, match=r"bench\.jsonl, line 2, is not of a comparison"):
        results.read([path])


def test_the_tables_have_what_was_measured_and_say_what_failed() -> None:
    page = tables.page(systems(), [MACHINE, MACHINE], RUNS)
    assert page.count("2026-11-22: 2 cores, 24 GiB") == 1
    assert "### 1,000,000 records, median of 3 rounds" in page
    assert "| eos, two-phase | exactly-once | 160 | 0.80 | 233,066 | 2,330.66 | 250,000 |" in page
    assert "| eos, two-phase | exactly-once | 30.0 |" in page
    assert "| eos, two-phase | exactly-once | 210 | 481 |" in page
    assert "### Latency, one round" in page
    assert "1 of 10 runs were disturbed" in page
    assert "Failed: Flink, XA, cold, 1,000,000 records, round 2." in page


def test_goals_are_looked_at_in_rounds_and_bold_where_they_are_reached() -> None:
    name = "rows_per_s_first_to_all_visible"
    runs = [
        Result(system, COLD, 3_000_000, number, {name: rate, "cpu_s_per_million_system": cpu})
        for system, cpu, rates in (
            ("raw", 1.0, (100.0, 400.0, 200.0)),
            ("eos-two-phase", 5.0, (90.0, 300.0, 190.0)),
            ("eos-alo", 1.0, (100.0, 300.0, 200.0)),
            ("flink-xa", 4.0, (90.0, 150.0, 100.0)),
            ("debezium-insert", 10.0, (1.0, 1.0, 1.0)),
        )
        for number, rate in enumerate(rates, 1)
    ]
    waits = [Result("eos-two-phase", LATENCY, 120_004, 1, {"ms_p50": 291.0, "ms_p99": 402.4})]
    head, *lines = goals.lines([*runs, *waits])
    assert head[2:] == ["3,000,000 records", "2,000 records a second"]
    assert [line[0] for line in lines] == [
        "0.9 of the limit",
        "1.5 of Flink, XA",
        "290 ms",
        "530 ms",
        "0.97 of at-least-once",
        "less CPU than each of the others",
    ]
    assert [line[2:] for line in lines] == [
        ["**0.90**", ""],
        ["**1.90**", ""],
        ["", "291 ms"],
        ["", "**402 ms**"],
        ["0.95", ""],
        ["1.25", ""],
    ]
    assert goals.lines([]) == []


def test_the_picture_names_every_system_and_is_the_same_each_time() -> None:
    drawn = chart.svg(systems(), RUNS, 1_000_000)
    texts = "".join(ElementTree.fromstring(drawn).itertext())
    assert all(label in texts for label in ("eos, two-phase", "Flink, XA", "limit: plain LOAD DATA"))
    assert "Debezium" not in texts
    assert chart.svg(systems(), RUNS, 1_000_000) == drawn


def test_the_report_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Benchmarks\n\n{report.BEGIN}\nlast year's\n{report.END}\n\n## More\n")
    (tmp_path / "run.jsonl").write_text("".join(f"{results.line(entry)}\n" for entry in ENTRIES))
    docs = report.Docs(page, tmp_path / "comparison.svg")
    for _ in range(2):
        report.report(systems(), [tmp_path / "run.jsonl"], docs)
    text = page.read_text()
    assert "last year" not in text
    assert text.count("### 1,000,000 records") == 1
    assert "(comparison.svg)" in text
    assert text.startswith("# Benchmarks\n\n<!--")
    assert text.endswith(f"{report.END}\n\n## More\n")
    assert docs.picture.read_text().startswith("<?xml")
    page.write_text("# Benchmarks\n")
    with pytest.raises(ValueError, match="no place for the comparison"):
        report.report(systems(), [tmp_path / "run.jsonl"], docs)


def test_the_tables_of_the_page_are_made_from_the_lines_beside_it(tmp_path: Path) -> None:
    for folder in ("explanation", "images"):
        (tmp_path / folder).mkdir()
    docs = report.Docs(tmp_path / "explanation" / "benchmarks.md", tmp_path / "images" / "comparison.svg")
    docs.page.write_text(report.replaced(PAGE, "figures"))
    files = [path for path in sorted((DOCS / "benchmarks").glob("*.jsonl")) if not is_of_formats(path)]
    report.report(systems(), files, docs)
    assert docs.page.read_text() == PAGE
