"""The page of compatibility, the record of the matrix, the package's metadata and the check of versions agree."""

from __future__ import annotations

import configparser
import re

from integration_tests.compatibility.cell import needs
from integration_tests.compatibility.record import COLUMNS, PAGE, read, with_table
from integration_tests.harness.pipeline_process import PROJECT
from spark_jobs.adapters.kafka_format import WAY as FORMAT_EOS_KAFKA
from spark_jobs.session.versions import RUN, WAYS, is_supported, pip, refusal, span

_TEXT = PAGE.read_text()
_ROWS = (100, 110, 800, 5000)  # 10 words, each once in 10 or 11 checkpoints; files; records of a topic


def test_the_table_of_the_page_is_that_of_the_record() -> None:
    lines = read()
    assert {each["way"] for each in lines} <= COLUMNS.keys()
    assert with_table(_TEXT, lines) == _TEXT, "run scripts/matrix --table"


def test_a_line_more_changes_the_page() -> None:
    line = {**read()[0], "pyspark": "4.0.99", "result": "exactly once", "rows": 5, "revision": "abc"}
    assert "| 4.0.99 |" in with_table(_TEXT, [*read(), line])
    assert "exactly once, 5 rows (abc)" in with_table(_TEXT, [*read(), line])


def test_each_result_is_what_the_check_says() -> None:
    for each in read():
        expected = "exactly once" if is_supported(each["pyspark"], needs(each["way"])) else "refused"
        assert each["result"] == expected, each
        if expected == "refused":
            assert each["reason"] in str(refusal(needs(each["way"]), each["pyspark"])), each
        else:
            assert each["rows"] in _ROWS, each


def test_each_version_of_the_package_was_run() -> None:
    run = {each["pyspark"].rpartition(".")[0] for each in read() if each["result"] == "exactly once"}
    assert run == {"3.5", "4.0", "4.1", "4.2", "4.3"}


def test_the_page_has_the_versions_of_each_way() -> None:
    rows = re.findall(r"^\| (.+?) \| (\d\.\d(?: to \d\.\d)?) \| (.+?) \|$", _TEXT, re.MULTILINE)
    stated = {name.replace("`", ""): (versions, lacking) for name, versions, lacking in rows}
    known = {way.name.replace("`", ""): (span(way), way.lacking) for way in (*WAYS, FORMAT_EOS_KAFKA)}
    assert stated == known


def test_the_page_shows_the_message() -> None:
    error = refusal(RUN, "3.5.9")
    assert error is not None
    assert f"error: {error.message}\n  remedy: {error.remedy}\n" in _TEXT


def test_the_metadata_allows_the_versions_of_all_ways() -> None:
    config = configparser.ConfigParser()
    config.read(PROJECT / "setup.cfg")
    oldest = min(WAYS, key=lambda way: way.since)
    assert pip(oldest) == f"pip install '{_pyspark(config)}'"


def _pyspark(config: configparser.ConfigParser) -> str:
    return next(line for line in config["options"]["install_requires"].split() if line.startswith("pyspark"))
