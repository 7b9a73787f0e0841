"""The archive of classes: written by one JVM, used by later ones, and never the death of any."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark_jobs.session.start_cache import archive_options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With an archive as Java leaves it when it ends."""
    ended = _java(archive_options(tmp_path, make=True))
    assert ended.stdout == "", "what Java says on the way belongs to stderr"
    (written,) = tmp_path.iterdir()
    assert written.stat().st_size > 100_000
    return tmp_path


def test_it_is_made_where_asked_for_and_then_used(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert archive_options(tmp_path_factory.mktemp("empty"), make=False) == []
    used = archive_options(folder, make=True)
    assert used == archive_options(folder, make=False)
    (archive,) = folder.iterdir()
    assert f"trying to map {archive}" in _java([*used, "-Xlog:cds=info:stdout"]).stdout


def test_of_two_the_first_is_kept(folder: Path) -> None:
    (written,) = folder.iterdir()
    written.with_stem(written.stem + "1").write_bytes(written.read_bytes())
    assert archive_options(folder, make=True) == archive_options(folder, make=True)
    assert [each.stem.partition("-")[0] for each in folder.iterdir()] == ["classes"]


@pytest.mark.parametrize("content", [b"", b"\0" * 4096])
def test_one_that_is_still_being_written_is_left_alone(tmp_path: Path, content: bytes) -> None:
    archive_options(tmp_path, make=True)
    (_log, option) = archive_options(tmp_path, make=True)
    written = Path(option.split('"')[1])
    written.write_bytes(content)
    assert archive_options(tmp_path, make=True)[1:] == [option]
    assert written.read_bytes() == content


def test_what_was_not_made_durable_before_a_crash_of_the_machine_is_not_used(folder: Path) -> None:
    (written,) = folder.iterdir()
    written.rename(folder / "written-1f9d6c1e-another-boot-7.jsa")
    assert "ArchiveClassesAtExit" in archive_options(folder, make=True)[1]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("offset", [0, 40_000, 100_000])
def test_java_leaves_a_damaged_one_aside(folder: Path, offset: int) -> None:
    used = archive_options(folder, make=False)
    (archive,) = folder.iterdir()
    content = bytearray(archive.read_bytes())
    content[offset : offset + 200] = bytes(200)
    archive.unlink()
    archive.write_bytes(content)
    started = _java(used)
    assert started.stdout == ""


def test_one_that_was_cut_is_thrown_away(folder: Path) -> None:
    """Java dies of it."""
    archive_options(folder, make=False)
    (archive,) = folder.iterdir()
    archive.chmod(0o600)
    os.truncate(archive, archive.stat().st_size // 2)
    assert archive_options(folder, make=False) == []
    assert list(folder.iterdir()) == []


def test_a_path_that_java_or_spark_would_cut_is_not_used(tmp_path: Path) -> None:
    assert archive_options(tmp_path / "a:b", make=True) == []


def _java(options: list[str]) -> subprocess.CompletedProcess[str]:
    """A JVM that prints its version to stderr and ends well."""
    words = [word.replace('"', "") for option in options for word in option.split()]
    clean = {name: value for name, value in os.environ.items() if "JAVA" not in name}
    return subprocess.run(
        ["java", *words, "-version"], check=True, text=True, capture_output=True, env=clean, timeout=60
    )
