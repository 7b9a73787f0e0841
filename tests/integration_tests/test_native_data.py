"""The data of the native servers: what is stopped drops its own, and leaves that of servers that run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.services import native, state
from integration_tests.services.native import Native
from integration_tests.services.processes import ServerProcess


def test_down_leaves_the_data_of_other_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MinIO, for one, may run for longer than Kafka and MariaDB."""
    monkeypatch.setattr(state, "PROJECT", tmp_path)
    data = tmp_path / "data"
    for kind in ("native", "minio"):
        (data / kind / "kept").mkdir(parents=True)
    monkeypatch.setattr(native, "data_folder", lambda: data)
    ended = ServerProcess.start(["true"], tmp_path / "log")
    services = Native()
    state.State("native").save({"processes": {"kafka": ended.to_json()}})

    assert services.down()
    assert [each.name for each in data.iterdir()] == ["minio"]
    assert (data / "minio" / "kept").is_dir()
