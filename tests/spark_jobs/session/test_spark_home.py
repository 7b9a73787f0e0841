"""The home that Spark starts from: made once, shared, and never in a user's way."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from spark_jobs.session.start_cache import spark_home


def test_it_holds_spark_and_no_copy_of_pyspark(tmp_path: Path) -> None:
    home = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    package = Path(pyspark.__file__).parent
    assert _names(home / "jars") == _names(package / "jars")
    assert (home / "bin" / "spark-submit").is_file()
    assert not list(home.rglob("pyspark.zip"))
    assert home.stat().st_mode & 0o077 == 0, "nobody else may put a jar there"
    assert spark_home({"XDG_CACHE_HOME": str(tmp_path)}) == home


def test_many_processes_may_make_it_at_a_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = list(pool.map(spark_home, [{"XDG_CACHE_HOME": str(tmp_path)}] * 32))
    (home,) = set(homes)
    assert home is not None
    (folder,) = (tmp_path / "eos").iterdir()
    assert [each.name for each in folder.iterdir()] == ["home"], "what the slower ones made is gone"


def test_a_users_home_and_a_cache_that_cannot_be_written_are_respected(tmp_path: Path) -> None:
    assert spark_home({"SPARK_HOME": "/opt/spark"}) is None
    (tmp_path / "eos").write_text("a file")
    with pytest.raises(OSError, match="eos"):
        spark_home({"XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_folder_that_others_can_write_is_not_run_from(tmp_path: Path, level: int) -> None:
    home = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    [home, *home.parents][level].chmod(0o770)
    with pytest.raises(PermissionError, match="other users may write there"):
        spark_home({"XDG_CACHE_HOME": str(tmp_path)})


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    one, other = spark_home(cache), spark_home({**cache, "JAVA_HOME": str(tmp_path)})
    assert one is not None
    assert other is not None
    assert one != other


def test_pyspark_itself_accepts_it(tmp_path: Path) -> None:
    home = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    program = "from pyspark.find_spark_home import _find_spark_home; print(_find_spark_home())"
    environment = {**os.environ, "SPARK_HOME": str(home)}
    found = subprocess.run([sys.executable, "-c", program], env=environment, text=True, capture_output=True, check=True)
    assert found.stdout.strip() == str(home)


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}
