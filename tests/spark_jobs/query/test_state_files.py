"""Files of a checkpoint, where what names them was not written by Spark: a savepoint may be from anywhere."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from eos.errors import SavepointError
from spark_jobs.query import state_files
from spark_jobs.query.state_files import needed, state_ids
from tests import savepoint_files as files

NEWEST = files.NEWEST


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    return files.run_until(tmp_path / "state")


def _describe(spark: Path, document: dict[str, Any]) -> None:
    """Replace the list of files in each snapshot."""
    for path in (spark / "state").rglob("*.zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("metadata", f"v1\n{json.dumps(document)}")


@pytest.mark.parametrize("kind", ["sst", "log"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_snapshot_names_no_file_outside_its_folder(spark: Path, tmp_path: Path, kind: str, absolute: bool) -> None:
    """`eos savepoint` would copy it, and a start from a savepoint would send it to the store."""
    secret = tmp_path / "credentials"
    secret.write_text("sesame")
    name = str(secret) if absolute else f"{'../' * 20}{secret.relative_to('/')}"
    named = {"sstFiles": [], f"{kind}Files": [{f"dfs{kind.capitalize()}FileName": name}]}
    _describe(spark, named)
    with pytest.raises(SavepointError, match="is damaged"):
        needed(spark, NEWEST)


def test_a_snapshot_that_would_fill_the_memory_is_not_unpacked(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "_MAX_BYTES", 1_000_000)
    _describe(spark, {"sstFiles": [], "more": " " * 1_000_000})
    with pytest.raises(SavepointError, match=r"has 1,000,0\d\d bytes"):
        needed(spark, NEWEST)


@pytest.mark.parametrize("document", [[], {"sstFiles": [1]}, {"sstFiles": [{"dfsSstFileName": 1}]}, {}])
def test_a_snapshot_with_another_list_is_damaged(spark: Path, document: Any) -> None:
    _describe(spark, document)
    with pytest.raises(SavepointError, match="is damaged"):
        needed(spark, NEWEST)


@pytest.mark.parametrize("operator", ["..", "/etc", "0/../..", ""])
def test_an_operator_is_a_number(operator: str) -> None:
    commit = json.dumps({"stateUniqueIds": {operator: [["x"]]}})
    with pytest.raises(SavepointError, match="is not an operator"):
        state_ids(f"v2\n{commit}")


def test_the_id_of_a_state_leads_to_no_other_folder(spark: Path) -> None:
    store = spark / "state" / "0" / "0"
    found = store.parents[1] / "elsewhere.zip"
    (spark / "state" / "elsewhere.zip").write_bytes(b"x")
    (store / f"{NEWEST + 1}_").mkdir()
    files.put(spark / "commits" / str(NEWEST), 'v2\n{"stateUniqueIds":{"0":[["/../../../elsewhere"]]}}')
    assert found.exists()
    with pytest.raises(SavepointError, match="damaged"):
        needed(spark, NEWEST)
