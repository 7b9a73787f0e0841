"""Savepoints in an object store: whole or unfinished, whatever is lost on the way; hostile ones; and their end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.spec import Spec, load_spec
from eos.errors import SavepointError, SpecError
from spark_jobs.operations.upgrade import _savepoints
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.folder import FolderPlace
from spark_jobs.savepoints.places import default_place, parse
from spark_jobs.savepoints.store import StorePlace
from spark_jobs.savepoints.store_savepoint import DISCARDED, StoreSavepoint
from spark_jobs.savepoints.take import Taken, take
from tests import savepoint_files as files
from tests.object_store import Behaviour, Bucket, Request, Wire, lost_answer, lost_request, through
from twophase.codec import sha256_of
from wal.address import ObjectAddress

Lay = Callable[..., Wire]

PLACE = "eos/backup"


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    files.run_until(tmp_path / "state")
    files.keep_plan(tmp_path / "state", spec := files.spec_in(tmp_path))
    return spec


@pytest.fixture
def taken(spec: Spec, bucket: Bucket) -> Taken:
    return take(spec, bucket.address(PLACE))


def savepoint_of(taken: Taken) -> StoreSavepoint:
    assert isinstance(taken.at, ObjectAddress)
    return StoreSavepoint(taken.at)


def key_of(taken: Taken, path: str) -> str:
    assert isinstance(taken.at, ObjectAddress)
    return f"{taken.at.prefix}/{path}"


def of_manifest(behaviour: Behaviour) -> Behaviour:
    """What happens to the put of a manifest. Everything else passes."""

    def hearing(wire: Wire, request: Request) -> Any:
        is_manifest = request.method == "PUT" and b"/manifest.json " in request.head.partition(b"\r\n")[0]
        return (behaviour if is_manifest else through)(wire, request)

    return hearing


def test_it_has_the_files_of_a_folder_under_their_names(spec: Spec, bucket: Bucket, tmp_path: Path) -> None:
    """So it may be copied between both by any tool: each is a savepoint as it is."""
    taken = take(spec, bucket.address(PLACE))
    in_folder = files.folder_of(take(spec, tmp_path / "kept"))
    prefix = key_of(taken, "")
    there = {key.removeprefix(prefix): bucket.content(key) for key in bucket.listed()}
    local = {
        path.relative_to(in_folder).as_posix(): path.read_bytes() for path in in_folder.rglob("*") if path.is_file()
    }
    assert there.keys() == local.keys()
    assert {name for name in there if there[name] != local[name]} == {"manifest.json"}
    assert taken.manifest.files == manifests.read(in_folder).files

    for name, content in there.items():
        files.put(tmp_path / "copied" / name, "")
        (tmp_path / "copied" / name).write_bytes(content)
    assert manifests.checked(tmp_path / "copied") == taken.manifest
    for name, content in local.items():
        bucket.write(f"elsewhere/renamed/{name}", content)
    copied = StoreSavepoint(bucket.address("elsewhere/renamed"))
    assert copied.damage(copied.manifest()) == []
    assert [each.manifest for each in StorePlace(bucket.address("elsewhere")).found()] == [copied.manifest()]


def test_listed_read_and_deleted(spec: Spec, taken: Taken, bucket: Bucket, tmp_path: Path) -> None:
    bucket.write("eos/backup/other/file", b"mine")
    bucket.write("eos/backup/savepoint-bbbbbb-5-0123/mine", b"whose name no writer gives")
    later = take(spec, bucket.address(PLACE))
    found = StorePlace(bucket.address(PLACE)).found()
    assert [(str(each.at), each.manifest) for each in found] == [
        (str(each.at), each.manifest) for each in (later, taken)
    ], "newest first"
    savepoint = savepoint_of(taken)
    with savepoint.opened(tmp_path / "scratch") as whole:
        assert (manifests.damage(whole.folder, whole.manifest), whole.manifest) == ([], taken.manifest)
        assert (tmp_path / "scratch" / "download").stat().st_mode & 0o777 == 0o700
        assert whole.folder.parent.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "scratch" / "download").iterdir()) == []
    assert savepoint.dispose() == taken.manifest
    assert not [key for key in bucket.listed() if key.startswith(key_of(taken, ""))]
    assert [each.manifest for each in StorePlace(bucket.address(PLACE)).found()] == [later.manifest]
    assert "eos/backup/other/file" in bucket.listed()
    with pytest.raises(SavepointError, match="is no savepoint: nothing is there"):
        savepoint.dispose()


def test_of_many_files_each_is_sent_and_read_once(bucket: Bucket, wire: Lay, tmp_path: Path) -> None:
    """More than a page of a listing, and than are sent at a time; and one that is larger than a chunk."""
    source = tmp_path / "large"
    source.write_bytes(bytes(range(256)) * 10_000)
    line = wire(through)
    address = bucket.address(PLACE, line.port)
    with StorePlace(address).begin("savepoint-b-1") as writing:
        texts = {"head.json": b"head", "spark/offsets/1": b"offsets", **{f"spark/{n}": b"%d" % n for n in range(118)}}
        entries = writing.write(texts, {"spark/large": source})
        at = writing.publish(b"{}")
    assert line.requests == ["PUT"] * 122
    assert entries["spark/large"] == manifests.Entry(2_560_000, hashlib.sha256(source.read_bytes()).hexdigest())
    assert isinstance(at, ObjectAddress)
    assert len(bucket.listed()) == 122
    del line.requests[:]
    manifest = manifests.Manifest("i", "p", "b", 1, 0.0, 0.0, 0, {}, None, entries)
    assert StoreSavepoint(at).damage(manifest) == []
    assert line.requests.count("GET") == 121 + 1 + 3, "the large one by two requests, and three pages of names"


def test_a_lost_answer_to_the_manifest_is_looked_up(spec: Spec, bucket: Bucket, wire: Lay, hasty: None) -> None:
    line = wire(of_manifest(lost_answer))
    taken = take(spec, bucket.address(PLACE, line.port))
    savepoint = StoreSavepoint(bucket.address(str(taken.at).partition(f"{bucket.name}/")[2]))
    assert savepoint.damage(savepoint.manifest()) == []


def test_a_manifest_of_which_nothing_is_known_leaves_everything(
    spec: Spec, bucket: Bucket, wire: Lay, hasty: None
) -> None:
    """It may arrive after its writer has given up: then its files are there."""
    lost: list[Request] = []

    def losing(_: Wire, request: Request) -> None:
        lost.append(request)

    line = wire(of_manifest(losing))
    with pytest.raises(SavepointError, match=r"it is not known whether .* became a savepoint"):
        take(spec, bucket.address(PLACE, line.port))
    (found,) = StorePlace(bucket.address(PLACE)).found()
    assert (found.manifest, found.is_unfinished) == (None, True)
    assert b" 200 " in line.relay(lost[0]).partition(b"\r\n")[0]
    (found,) = StorePlace(bucket.address(PLACE)).found()
    assert found.manifest is not None
    assert isinstance(found.at, ObjectAddress)
    assert StoreSavepoint(found.at).damage(found.manifest) == []


def test_an_outage_while_it_is_written_leaves_nothing_once_it_is_over(
    spec: Spec, bucket: Bucket, wire: Lay, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Wire, request: Request) -> Any:
        return (
            lost_request(_, request)
            if request.method == "PUT" and b"/spark/commits" in request.head
            else through(_, request)
        )

    with pytest.raises(SavepointError, match=r"cannot publish .*spark/commits/5"):
        take(spec, bucket.address(PLACE, wire(failing).port))
    assert bucket.listed() == []

    def encode(_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(manifests, "encode", encode)
    with pytest.raises(KeyboardInterrupt):
        take(spec, bucket.address(PLACE))
    assert bucket.listed() == []


def test_an_unfinished_one_is_discarded_and_its_writer_is_refused(spec: Spec, bucket: Bucket, tmp_path: Path) -> None:
    place = StorePlace(bucket.address(PLACE))
    texts = {"head.json": b"{}", "spark/commits/5": b"v2"}
    refused = pytest.raises(SavepointError, match=r"was discarded while it was written")
    with refused as caught, place.begin("savepoint-bbbbbb-5") as writing:
        writing.write(texts, {})
        (found,) = place.found()
        assert (found.manifest, found.is_unfinished, "may still be at work" in found.why) == (None, True, True)
        assert isinstance(found.at, ObjectAddress)
        unfinished = StoreSavepoint(found.at)
        with pytest.raises(SavepointError, match=r"is no savepoint: it has no manifest\.json"):
            unfinished.dispose()
        unfinished.discard()
        assert [key.rpartition("/")[2] for key in bucket.listed()] == ["manifest.json"]
        writing.write({"spark/offsets/5": b"late"}, {})
        writing.publish(b"{}")
    assert "only if its writer has ended" in caught.value.remedy
    assert [bucket.content(key) for key in bucket.listed()] == [DISCARDED]
    (found,) = place.found()
    assert (found.manifest, found.is_unfinished, found.why) == (None, True, "discarded: it was unfinished")
    unfinished.discard()
    for call in (unfinished.manifest, unfinished.dispose):
        with pytest.raises(SavepointError, match="was discarded before it was finished"):
            call()
    assert FolderPlace(tmp_path / "none").found() == []


def test_only_what_is_unfinished_is_discarded(taken: Taken, bucket: Bucket) -> None:
    before = bucket.listed()
    with pytest.raises(SavepointError, match=r"has a manifest\.json: it is not unfinished"):
        savepoint_of(taken).discard()
    for prefix in (PLACE, key_of(taken, "spark")):
        with pytest.raises(SavepointError, match="it is not unfinished either"):
            StoreSavepoint(bucket.address(prefix)).discard()
    assert bucket.listed() == before
    bucket.write("eos/backup/savepoint-bbbbbb-5-012345/mine.txt", b"mine")
    with pytest.raises(SavepointError, match=r"holds what is not part of the savepoint: mine\.txt"):
        StoreSavepoint(bucket.address("eos/backup/savepoint-bbbbbb-5-012345")).discard()
    assert len(bucket.listed()) == len(before) + 1


def _altered(bucket: Bucket, key: str) -> None:
    content = bytearray(bucket.content(key))
    content[len(content) // 2] ^= 1
    bucket.write(key, bytes(content))


DAMAGE: dict[str, tuple[str, Callable[[Bucket, str], object], str]] = {
    "a byte": ("spark/state/0/1/SSTs/6.sst", _altered, "does not match its hash"),
    "cut short": ("head.json", lambda b, key: b.write(key, b"{"), "1 bytes instead of"),
    "longer": ("spark/commits/5", lambda b, key: b.write(key, b"x" * 300_000), "300,000 bytes instead of"),
    "missing": (
        "spark/commits/5",
        lambda b, key: b.s3.delete_object(Bucket=b.name, Key=key),
        "spark/commits/5: it is missing",
    ),
    "one more": ("spark/state/0/1/7_x.zip", lambda b, key: b.write(key, b"x"), "not part of the savepoint"),
    "manifest": ("manifest.json", _altered, "damaged"),
    "half a manifest": ("manifest.json", lambda b, key: b.write(key, b'{"kind": "eos'), "damaged"),
    "no manifest": (
        "manifest.json",
        lambda b, key: b.s3.delete_object(Bucket=b.name, Key=key),
        r"is no savepoint: it has no manifest\.json",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_before_anything_is_used(taken: Taken, bucket: Bucket, tmp_path: Path, name: str) -> None:
    path, damage, told = DAMAGE[name]
    damage(bucket, key_of(taken, path))
    with pytest.raises(SavepointError, match=told), savepoint_of(taken).opened(tmp_path / "scratch"):
        pytest.fail("nothing is given out")
    download = tmp_path / "scratch" / "download"
    assert not download.exists() or list(download.iterdir()) == []


def _rewritten(bucket: Bucket, key: str, path: str, entry: list[object]) -> None:
    """Give a manifest one more file, with the right checksum."""
    document = json.loads(bucket.content(key))
    document["files"][path] = entry
    del document["checksum"]
    document["checksum"] = sha256_of(manifests._dump(document))
    bucket.write(key, manifests._dump(document))


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/passwd",
        "spark/../../outside",
        "spark/%2e%2e/%2e%2e/outside",
        "a//b",
        "./a",
        "a\\..\\b",
        "ä",
        "",
    ],
)
def test_a_manifest_names_nothing_outside(taken: Taken, bucket: Bucket, tmp_path: Path, path: str) -> None:
    bucket.write("eos/backup/outside", b"x")
    _rewritten(bucket, key_of(taken, "manifest.json"), path, [1, sha256_of(b"x")])
    before = bucket.listed()
    savepoint = savepoint_of(taken)
    with pytest.raises(SavepointError, match="damaged"):
        savepoint.dispose()
    with pytest.raises(SavepointError, match="damaged"), savepoint.opened(tmp_path / "scratch"):
        pytest.fail("nothing is given out")
    assert bucket.listed() == before
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("entry", [[-1, "0"], ["1", "0"], [1, 0], [True, "0"], [1.5, "0"], [1]])
def test_a_manifest_with_other_values_is_damaged(taken: Taken, bucket: Bucket, entry: list[object]) -> None:
    _rewritten(bucket, key_of(taken, "manifest.json"), "spark/x", entry)
    with pytest.raises(SavepointError, match="damaged"):
        savepoint_of(taken).manifest()


def test_a_manifest_without_end_is_not_read(taken: Taken, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_SMALL", 100)
    with pytest.raises(SavepointError, match=r"manifest\.json is damaged: it is too large"):
        savepoint_of(taken).manifest()
    with pytest.raises(SavepointError, match="missing, or too large"):
        savepoint_of(taken).content("head.json", taken.manifest)


def test_files_of_others_are_not_deleted_with_it(taken: Taken, bucket: Bucket) -> None:
    """Neither below it, nor beside it under a name that only begins alike."""
    bucket.write(f"{key_of(taken, '')[:-1]}-mine/file", b"mine")
    bucket.write(key_of(taken, "spark/mine.txt"), b"mine")
    before = bucket.listed()
    with pytest.raises(SavepointError, match=r"holds what is not part of the savepoint: spark/mine\.txt"):
        savepoint_of(taken).dispose()
    assert bucket.listed() == before
    bucket.s3.delete_object(Bucket=bucket.name, Key=key_of(taken, "spark/mine.txt"))
    savepoint_of(taken).dispose()
    assert bucket.listed() == [f"{key_of(taken, '')[:-1]}-mine/file"]


def test_a_disposal_that_is_cut_off_leaves_no_savepoint(taken: Taken, bucket: Bucket, wire: Lay, hasty: None) -> None:
    deletes: list[Request] = []

    def hearing(line: Wire, request: Request) -> Any:
        if request.method == "DELETE":
            deletes.append(request)
        return lost_request(line, request) if len(deletes) > 1 else through(line, request)

    at = str(taken.at).partition(f"{bucket.name}/")[2]
    with pytest.raises(SavepointError, match=r"a part of .* stays, and is not a savepoint") as caught:
        StoreSavepoint(bucket.address(at, wire(hearing).port)).dispose()
    assert "--unfinished" in caught.value.remedy
    assert f"{at}/manifest.json" not in bucket.listed()
    savepoint_of(taken).discard()
    assert bucket.listed() == [f"{at}/manifest.json"]


def test_a_bucket_that_is_missing_is_an_error(spec: Spec, bucket: Bucket) -> None:
    options = dict(bucket.address().options)
    address = ObjectAddress.parse("s3://no-such-bucket-77/backup", options)
    with pytest.raises(SavepointError, match="no-such-bucket-77"):
        take(spec, address)
    with pytest.raises(SavepointError, match="no-such-bucket-77"):
        StorePlace(address).found()


def test_a_disk_without_room_is_named(taken: Taken, tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("a file")
    refused = pytest.raises(SavepointError, match=r"cannot be downloaded: .*scratch")
    with refused, savepoint_of(taken).opened(tmp_path / "scratch"):
        pytest.fail("nothing is given out")


def test_an_upgrade_reads_the_savepoints_of_the_store(spec: Spec, bucket: Bucket, tmp_path: Path) -> None:
    options = ", ".join(f"{name}: '{value}'" for name, value in bucket.address().options)
    (tmp_path / "s.yaml").write_text(SPEC % f"location: 's3://{bucket.name}/eos', location_options: {{{options}}}")
    loaded = load_spec(tmp_path / "s.yaml", {})
    assert list(_savepoints(loaded)) == []
    taken = take(spec, default_place(loaded))
    assert key_of(taken, "").startswith("eos/savepoints/savepoint-bbbbbb-5-")
    bucket.write("eos/savepoints/newer/manifest.json", b'{"kind": "eos-savepoint", "format": 2}')
    bucket.write("eos/savepoints/savepoint-bbbbbb-5-012345/head.json", b"{}")
    found = {finding.check: (finding.ok, finding.detail) for _, finding in _savepoints(loaded)}
    name = str(taken.at).rpartition("/")[2]
    assert found.keys() == {name, "newer"}
    assert (found[name], found["newer"][0]) == ((True, "checkpoint 5"), False)
    assert "has format 2" in found["newer"][1]


SPEC = """\
pipeline: orders
checkpoint: {%s}
sinks: [{name: out, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}]
"""


@pytest.mark.parametrize(
    ("checkpoint", "url", "options"),
    [
        ("location: s3://a/b, location_options: {region: r}", "s3://c/d", {"region": "r"}),
        ("location: s3://a/b, log: s3://e/f, location_options: {region: r}", "s3://e/d", {"region": "r"}),
        ("location: state, log: s3://e/f, log_options: {region: q}", "s3://c/d", {"region": "q"}),
        ("location: s3://a/b, location_options: {region: r}", "gs://cup/d", {}),
        ("location: state", "s3://c/d/", {}),
        ("location: hdfs://ns1/b, location_options: {namenodes: 'h:1,i:2'}", "hdfs://ns1/d", {"namenodes": "h:1,i:2"}),
        ("location: hdfs://ns1/b, location_options: {namenodes: 'h:1,i:2'}", "hdfs://host:8020/d", {}),
    ],
)
def test_options_of_a_url_are_of_the_store_of_the_spec(
    tmp_path: Path, checkpoint: str, url: str, options: dict[str, str]
) -> None:
    (tmp_path / "s.yaml").write_text(SPEC % checkpoint.replace("://a/", "://aaa/").replace("://e/", "://eee/"))
    spec = load_spec(tmp_path / "s.yaml", {})
    url = url.replace("://c/", "://ccc/").replace("://e/", "://eee/")
    at = parse(url, spec)
    assert isinstance(at, ObjectAddress)
    assert (str(at), dict(at.options)) == (url.rstrip("/"), options)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3a://bucket/a", "s3a:// is how Spark and Hadoop spell it"),
        ("s3://bucket", "the prefix below the bucket is missing"),
        ("s3://bucket/a/../b", "the prefix below the bucket has an empty part, or other characters"),
        ("az://container/a", "az:// needs to know the storage account"),
        ("https://host/a", "is not the URL of an object store"),
        ("file:/backup", "is not the URL of an object store"),
    ],
)
def test_a_url_that_is_wrong_is_refused(url: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:geheim@bucket/a",
        "s3://key:ge/geheim@x/y@bucket/a",
        "s3:/key:geheim@bucket/a",
        "s3:///key:geheim@bucket/a",
        "s3a://key:geheim@bucket/a",
        "s3a://geheim@bucket/a",
        "https://user:geheim@host/a",
        "abfss://container@account.dfs.core.windows.net/a?sig=geheim",
        "az://container/a?sp=r&sig=geheim",
        "s3://bucket/a#geheim",
    ],
)
def test_a_secret_in_a_url_is_not_shown(tmp_path: Path, url: str) -> None:
    options = "{endpoint: 'https://aaa.example.com', virtual_hosted_style_request: 'true'}"
    (tmp_path / "s.yaml").write_text(SPEC % f"location: s3://aaa/b, location_options: {options}")
    for spec in (None, load_spec(tmp_path / "s.yaml", {})):
        with pytest.raises(SpecError) as caught:
            parse(url, spec)
        assert "geheim" not in f"{caught.value} {caught.value.remedy}"


def test_the_endpoint_of_one_bucket_is_not_used_for_another(tmp_path: Path) -> None:
    options = "{endpoint: 'https://aaa.example.com', virtual_hosted_style_request: 'true'}"
    (tmp_path / "s.yaml").write_text(SPEC % f"location: s3://aaa/b, location_options: {options}")
    spec = load_spec(tmp_path / "s.yaml", {})
    assert isinstance(parse("s3://aaa/d", spec), ObjectAddress)
    with pytest.raises(SpecError, match="the option endpoint is of the bucket aaa"):
        parse("s3://ccc/d", spec)
