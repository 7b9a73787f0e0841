"""The last lines of logs in the page: for the token that steers, without secrets and control characters."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.page.live_view import Live
from spark_jobs.page.opening import PageOptions, opened
from tests.page_history import SECRET, no_sinks, spec_of
from tests.page_http import TOKEN, Client

OPTIONS = PageOptions(port=0, token=TOKEN, read_token="a-token-that-reads-only")
OF = "/api/v1/pipelines/orders/log"


def test_logs_of_the_run_of_spark_and_of_its_processes(tmp_path: Path) -> None:
    spec, live = spec_of(tmp_path), Live()
    spec.checkpoint.folder.mkdir(parents=True)
    (spec.checkpoint.folder / "spark.log").write_text(f"WARN one\nERROR \x1b[31m{SECRET}\u202e\n")
    live.log.add("eos.checkpoint: committed")
    with opened([spec], OPTIONS, no_sinks, lives=[live]) as page:
        client = Client(page.url)
        assert client.get(f"{OF}?of=spark").json["lines"] == ["WARN one", "ERROR \\x1b[31m***\\u202e"]
        assert client.get(f"{OF}?of=spark&lines=1").json["lines"] == ["ERROR \\x1b[31m***\\u202e"]
        assert client.get(f"{OF}?of=run").json["lines"] == ["eos.checkpoint: committed"]
        assert client.get(f"{OF}?of=stderr").json["is_there"] is False
        for wrong in ("", "?of=../head", "?of=spark&lines=0", "?of=spark&lines=9999"):
            assert client.get(f"{OF}{wrong}").status == 422, wrong
        reader, stranger = Client(page.url, OPTIONS.read_token), Client(page.url, None)
        assert (reader.get(f"{OF}?of=spark").status, stranger.get(f"{OF}?of=spark").status) == (403, 401)
    with opened([spec], OPTIONS, no_sinks) as page:
        assert Client(page.url).get(f"{OF}?of=run").json["is_there"] is False, "it is the log of another process"
