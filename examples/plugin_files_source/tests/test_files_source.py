"""The suite of eos for sources, and what is special about files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet
import pytest
from eos_files_source.entry import FilesEntry
from eos_files_source.listing import open_store
from eos_files_source.source import FIRST, FilesSource

from eos.errors import BadRecordError, OffsetOutOfRangeError, SourceAccessError
from eos.testing import Damage, SourceCompliance

COLUMNS = pa.schema([("n", pa.int64()), ("text", pa.string())])


def source(folder: Path) -> FilesSource:
    return FilesSource(str(folder), COLUMNS)


def write_json(path: Path, numbers: range) -> None:
    path.write_text("".join(json.dumps({"n": n, "text": f"é {n}"}, ensure_ascii=False) + "\n" for n in numbers))


def write_parquet(path: Path, numbers: range) -> None:
    rows = pa.table([pa.array(numbers, pa.int64()), pa.array(map(str, numbers), pa.string())], schema=COLUMNS)
    pyarrow.parquet.write_table(rows, path, row_group_size=70)


class FilesCompliance(SourceCompliance):
    """Each `append` is one more file."""

    def make_source(self, folder: Path) -> FilesSource:
        return source(folder)

    def append(self, folder: Path, numbers: range) -> None:
        raise NotImplementedError

    def damages(self) -> Mapping[str, Damage]:
        def first(folder: Path) -> Path:
            return min(path for path in folder.iterdir())

        def replaced(folder: Path) -> None:
            path = first(folder)
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content[:-1] + b" ")

        def grown(folder: Path) -> None:
            with first(folder).open("ab") as file:
                file.write(b"\n")

        def removed(folder: Path) -> None:
            first(folder).unlink()

        def put_between(folder: Path) -> None:
            write_json(folder / "00000-late.jsonl", range(3))

        return {"replaced": replaced, "grown": grown, "removed": removed, "put between": put_between}


class TestJsonLines(FilesCompliance):
    """JSON Lines files."""

    def append(self, folder: Path, numbers: range) -> None:
        write_json(folder / f"{numbers.start:09d}.jsonl", numbers)


class TestParquet(FilesCompliance):
    """Parquet files of several row groups."""

    def append(self, folder: Path, numbers: range) -> None:
        write_parquet(folder / f"{numbers.start:09d}.parquet", numbers)


class TestBoth(FilesCompliance):
    """Files of both kinds in one folder, in the order of their names."""

    def append(self, folder: Path, numbers: range) -> None:
        half = numbers.start + len(numbers) // 2
        write_json(folder / f"{numbers.start:09d}.jsonl", range(numbers.start, half))
        write_parquet(folder / f"{half:09d}.parquet", range(half, numbers.stop))


def test_a_file_that_was_replaced_after_the_plan_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_json(path, range(10))
    files = source(tmp_path)
    ((split, start),) = files.splits().items()
    end = files.end(split, start)
    path.unlink()
    write_json(path, range(10, 20))
    with pytest.raises(Exception, match="are not those that were planned"):
        list(files.read(split, start, end))


def test_other_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "a.jsonl.tmp").write_text("{")
    files = source(tmp_path)
    ((split, start),) = files.splits().items()
    assert files.end(split, start) == start


def test_the_metadata_say_where_a_record_begins(tmp_path: Path) -> None:
    write_json(tmp_path / "a.jsonl", range(3))
    write_parquet(tmp_path / "b.parquet", range(3, 6))
    files = source(tmp_path)
    ((split, start),) = files.splits().items()
    rows = [row for batch in files.read(split, start, files.end(split, start)) for row in batch.to_pylist()]
    assert [(row["_file"], row["n"]) for row in rows] == [
        ("a.jsonl", 0),
        ("a.jsonl", 1),
        ("a.jsonl", 2),
        *(("b.parquet", n) for n in (3, 4, 5)),
    ]
    lines = (tmp_path / "a.jsonl").read_bytes()
    assert [json.loads(lines[row["_at"] :].splitlines()[0])["n"] for row in rows[:3]] == [0, 1, 2]
    assert [row["_at"] for row in rows[3:]] == [0, 1, 2]


@pytest.mark.parametrize("line", ['{"n": "x"}', "{", '{"n": 1} {"n": 2}'])
def test_a_line_that_does_not_decode_stops_the_pipeline(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"n": 1}}\n{line}\n')
    files = source(tmp_path)
    ((split, start),) = files.splits().items()
    with pytest.raises(BadRecordError, match=r"a\.jsonl"):
        list(files.read(split, start, files.end(split, start)))


DAMAGED = {
    "null": (pa.table([pa.array([1, None], pa.int64()), pa.array(["a", "b"])], schema=COLUMNS), "NOT NULL"),
    "struct": (pa.table({"n": pa.array([{"a": 1}]), "text": ["a"]}), "do not fit the schema"),
    "not UTF-8": (
        pa.table([pa.array([1]), pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())], schema=COLUMNS),
        "UTF8",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_parquet_that_does_not_fit_is_a_bad_record(tmp_path: Path, case: str) -> None:
    rows, words = DAMAGED[case]
    pyarrow.parquet.write_table(rows, tmp_path / "a.parquet")
    wanted = pa.schema([COLUMNS.field("n").with_nullable(False), COLUMNS.field("text")])
    files = FilesSource(str(tmp_path), wanted)
    with pytest.raises(BadRecordError, match=words):
        list(files.read("files", FIRST, files.end("files", FIRST)))


def test_a_damaged_page_of_a_parquet_file_is_a_bad_record(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", range(50))
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[8:80] = b"\xff" * 72
    (tmp_path / "a.parquet").write_bytes(content)
    files = source(tmp_path)
    with pytest.raises(BadRecordError, match=r"a\.parquet, rows from 0 on"):
        list(files.read("files", FIRST, files.end("files", FIRST)))


def test_text_that_is_not_utf_8_is_a_bad_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1, "text": "\xff\xfe"}\n')
    files = source(tmp_path)
    with pytest.raises(BadRecordError, match=r"a\.jsonl, lines from byte 0 on"):
        list(files.read("files", FIRST, files.end("files", FIRST)))


def test_options_of_the_client_are_options_too() -> None:
    options = (("allow_http", "true"), ("endpoint", "http://127.0.0.1:1"), ("region", "local"))
    assert open_store("s3://bucket/clicks", options) is not None


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4_000)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 2_000)
        file.write(b" " * 1_000)
    os.utime(path, ns=(1, 1))


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [cut_off, overwritten, removed])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_that_changes_while_it_is_read_stops_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, change: Callable[[Path], None]
) -> None:
    """The rows that were read so far are those of the plan, and no row of other bytes follows."""
    monkeypatch.setattr("eos_files_source.source._CHUNK_BYTES", 1_000)
    monkeypatch.setattr("eos_files_source.source._BATCH_BYTES", 1_000)
    path = tmp_path / f"a.{suffix}"
    (write_json if suffix == "jsonl" else write_parquet)(path, range(2_000))
    files = source(tmp_path)
    end = files.end("files", FIRST)
    batches = files.read("files", FIRST, end)
    found = next(batches).column("n").to_pylist()
    change(path)
    with pytest.raises(OffsetOutOfRangeError, match=rf"a\.{suffix} was removed, replaced, extended or cut off"):
        found.extend(n for batch in batches for n in batch.column("n").to_pylist())
    assert found == list(range(len(found)))


def test_a_file_that_changes_within_one_request_stops_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "a.jsonl", range(10))
    files = source(tmp_path)
    end = files.end("files", FIRST)
    get = obstore.get

    def late(*args: Any, **options: Any) -> Any:
        found = get(*args, **options)
        os.utime(tmp_path / "a.jsonl", ns=(1, 1))
        return found

    monkeypatch.setattr(obstore, "get", late)
    with pytest.raises(OffsetOutOfRangeError, match="since it was listed"):
        list(files.read("files", FIRST, end))


def linked(folder: Path, links: str) -> FilesSource:
    entry = {"name": "f", "connector": "files", "url": str(folder), "schema": "n BIGINT, text STRING"}
    return FilesEntry.model_validate({**entry, "symlinks": links} if links else entry).build()


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, as_folder: bool) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    outside.mkdir()
    write_json(outside / "a.jsonl", range(3))
    link = folder / ("sub" if as_folder else "a.jsonl")
    link.symlink_to(outside if as_folder else outside / "a.jsonl")
    for links in ("", "inside", "refuse"):
        files = linked(folder, links)
        for call in (files.splits, lambda files=files: files.end("files", FIRST)):
            with pytest.raises(SourceAccessError, match=r"a\.jsonl is a symbolic link"):
                call()
        assert not files.check()[0].ok
    assert linked(folder, "follow").end("files", FIRST) != FIRST


def test_a_link_within_the_folder_is_read_unless_links_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "way").symlink_to(folder)  # above the source's folder links are the user's own
    write_json(folder / "a.jsonl", range(3))
    (folder / "b.jsonl").symlink_to("a.jsonl")
    files = linked(tmp_path / "way", "inside")
    end = files.end("files", FIRST)
    assert [n for batch in files.read("files", FIRST, end) for n in batch.column("n").to_pylist()] == [0, 1, 2] * 2
    with pytest.raises(SourceAccessError, match=r"b\.jsonl is a symbolic link"):
        linked(tmp_path / "way", "refuse").splits()


_MEASURED = "; ".join(
    (
        "import sys",
        "import pyarrow as pa",
        "from eos_files_source.source import FIRST, FilesSource",
        "columns = pa.schema([('n', pa.int64()), ('text', pa.string())])",
        "files = FilesSource(sys.argv[1], columns)",
        "rows = sum(batch.num_rows for batch in files.read('files', FIRST, files.end('files', FIRST)))",
        "status = open('/proc/self/status').read()",
        "print(rows, status.split('VmHWM:')[1].split()[0])",  # not ru_maxrss, which begins with the parent's
    )
)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measured by /proc")
def test_memory_for_a_parquet_file_is_bounded(tmp_path: Path) -> None:
    """One row group of 200 MB, as careless producers write it."""
    peaks = []
    for rows in (1_000, 200_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        texts = pa.array([os.urandom(512).hex() for _ in range(rows)])
        table = pa.table([pa.array(range(rows), pa.int64()), texts], schema=COLUMNS)
        pyarrow.parquet.write_table(
            table, folder / "a.parquet", row_group_size=rows, use_dictionary=False, compression="none"
        )
        script = [sys.executable, "-c", _MEASURED, str(folder)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(script, env=environ, capture_output=True, text=True, check=True)
        count, peak = map(int, done.stdout.split())
        assert count == rows
        peaks.append(peak)
    assert (tmp_path / "200000" / "a.parquet").stat().st_size > 200_000_000
    assert peaks[1] - peaks[0] < 160_000  # KB
