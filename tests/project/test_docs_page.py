"""The pages about the page, its API and its metrics match the code."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from connectors.spec import load_spec
from spark_jobs.cli import command_line
from spark_jobs.page.metrics import Metrics
from spark_jobs.page.opening import DEFAULT_HOST, DEFAULT_PORT, TOKEN_VARIABLE, PageOptions, opened
from tests.page_history import RUN, SECRET, spec_of
from tests.page_http import TOKEN, Client

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "watching.md"
TEXT = PAGE.read_text()
REST = (DOCS / "reference" / "rest.md").read_text()
METRICS = (DOCS / "reference" / "metrics.md").read_text()


def section(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def rows(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


def test_its_options_are_those_of_the_commands() -> None:
    commands = command_line().commands
    known = {option for name in ("run", "ui") for each in commands[name].params for option in each.opts}
    named = set(re.findall(r"--[a-z][a-z-]+", section("The page")))
    assert (
        {"--ui", "--ui-port", "--ui-host", "--ui-token-file", "--ui-read-token-file", "--host", "--port"}
        <= named
        <= known
    )
    assert f"listens at {DEFAULT_HOST}, port {DEFAULT_PORT}" in TEXT
    assert f"`{TOKEN_VARIABLE}`" in TEXT
    for command, options in (
        ("run", {"ui_host": DEFAULT_HOST, "ui_port": DEFAULT_PORT}),
        ("ui", {"host": DEFAULT_HOST}),
    ):
        defaults = {each.name: each.default for each in commands[command].params}
        assert options.items() <= defaults.items()


def test_its_pictures_are_there() -> None:
    images = re.findall(r"!\[[^]]+\]\(([^)]+)\)", TEXT)
    assert len(images) >= 2
    assert all((PAGE.parent / image).stat().st_size < 200_000 for image in images)


def test_its_paths_are_those_of_the_api(tmp_path: Path) -> None:
    with opened([spec_of(tmp_path)], PageOptions(port=0, token=TOKEN), lambda _spec: []) as page:
        client = Client(page.url)
        paths = client.get("/openapi.json").json["paths"]
        curl = re.search(r"curl -H .*?(http://\S+)\ncurl -X POST .*?(http://\S+)", REST)
        assert curl is not None
        read, stop = (re.sub(r"http://[^/]+", "", url) for url in curl.groups())
        assert client.get(read).json["name"] == "orders"
        assert client.post(stop).status == 409  # nobody runs it
    below = {path.removeprefix("/api/v1/pipelines/{pipeline}") for path in paths if "{pipeline}" in path}
    named = [name for cell, _ in rows(REST)[2:] for name in re.findall(r"`(/[^`?]*)", cell)]
    assert sorted(re.sub(r"\{.*\}", "ID", path) for path in below if path) == sorted(named)
    parameters = {each["name"] for each in paths["/api/v1/pipelines/{pipeline}/series"]["get"]["parameters"]}
    assert {"metric", "since", "until", "buckets"} <= parameters


def test_its_metrics_are_those_that_are_served(tmp_path: Path) -> None:
    metrics = Metrics(per_split=True)
    spec_of(tmp_path)
    metrics.listener(load_spec(tmp_path / "pipeline.yaml", {"SECRET": SECRET}), run_id=RUN, version="0")
    families = text_string_to_metric_families(metrics.exposed()[0].decode())
    served = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in families
        if not each.name.endswith("_created")  # which the library adds to each counter
    }
    named = [cells[0].strip("`") for cells in rows(METRICS)[2:]]
    assert sorted(named) == sorted(name if name != "eos_pipeline" else "eos_pipeline_info" for name in served)
    alerts = set(re.findall(r"\beos_\w+", METRICS.partition("```")[2].partition("```")[0]))
    assert alerts <= set(named)
