"""What a cluster is sent of the plugins that a spec names, however they are installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from connectors.api import plugins
from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.session import shipping
from spark_jobs.session.shipping import write_archive
from tests.connectors.api.distributions import SHELF, install

_SPEC = """
pipeline: orders
checkpoint: {location: ./state}
spark: {master: "spark://spark.example:7077"}
sources:
  - {name: rows, connector: kafka, bootstrap_servers: "a:1", topics: [orders], format: {type: string}}
sinks: [{name: out, from: rows, connector: shelf, box: red}]
"""
_ENTRY = dedent(SHELF).replace('"""`connector', 'task_modules = ("{store}",)\n    """`connector')


class World:
    """A distribution on the path of this process, and a spec that names its sink."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self.dist = folder / "dist"

    def install(self, entry: str, store: str, *packages: str, folder: Path | None = None) -> None:
        """Write the modules `entry` and `store`, with an `__init__.py` in each of `packages`."""
        for name in list(sys.modules):
            if name.partition(".")[0] in {entry.partition(".")[0], store.partition(".")[0]}:
                self._monkeypatch.delitem(sys.modules, name)
        install(self.dist, "eos-shelf", {plugins.SINKS: {"shelf": f"{entry}:ShelfEntry"}}, {})
        root = folder or self.dist
        for module, text in ((entry, _ENTRY.replace("{store}", store)), (store, "")):
            path = root / f"{module.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for package in packages:
            (root / package.replace(".", "/") / "__init__.py").touch()
        self._monkeypatch.syspath_prepend(str(self.dist))

    def spec(self) -> Spec:
        path = self._folder / "spec.yaml"
        path.write_text(_SPEC)
        return load_spec(path, {})

    def archive(self) -> Path:
        return write_archive(self._folder / "modules.zip", self.spec())

    def import_from(self, archive: Path, *modules: str) -> None:
        """Import them in a process that has the archive, and the plugin nowhere else."""
        rest = [each for each in sys.path if each != str(self.dist)]
        code = (
            f"import sys; sys.path[:0] = [{str(archive)!r}]; sys.path += {rest!r}; import {', '.join(modules)};"
            f"assert all({str(archive)!r} in sys.modules[name].__file__ for name in {modules!r})"
        )
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=self._folder)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("entry", "store", "packages"),
    [
        ("shelf_package.entry", "shelf_package.store", ["shelf_package"]),
        ("shelf_namespace.entry", "shelf_namespace.store", []),
        ("acme.shelf.entry", "acme.shelf.deep.store", ["acme.shelf", "acme.shelf.deep"]),
        ("corp.boxes.entry", "corp.boxes.store", []),
        ("shelf_entry", "shelf_store", []),
    ],
    ids=["package", "namespace package", "package in a namespace", "two namespaces", "two modules"],
)
def test_a_plugin_is_sent_whatever_its_form(world: World, entry: str, store: str, packages: list[str]) -> None:
    world.install(entry, store, *packages)
    world.import_from(world.archive(), entry, store)


def test_of_a_shared_namespace_only_the_part_of_the_plugin_is_sent(world: World) -> None:
    world.install("acme.shelf.entry", "acme.shelf.store", "acme.shelf")
    (world.dist / "acme" / "bank").mkdir()
    (world.dist / "acme" / "bank" / "keys.py").touch()
    with zipfile.ZipFile(world.archive()) as archive:
        assert [name for name in archive.namelist() if name.startswith("acme/bank")] == []


def test_an_editable_plugin_is_sent_under_the_name_of_its_package(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install may map a package to a folder of another name."""
    world.install("shelf_editable.entry", "shelf_editable.store", "shelf_editable", folder=tmp_path / "checkout")
    (tmp_path / "checkout" / "shelf_editable").rename(tmp_path / "checkout" / "src")
    finder = f"""
        import sys
        from importlib.util import spec_from_file_location

        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "shelf_editable":
                    folder = {str(tmp_path / "checkout" / "src")!r}
                    return spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    """
    found: dict[str, type] = {}
    exec(dedent(finder), found)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, found["Finder"]])
    world.import_from(world.archive(), "shelf_editable.entry", "shelf_editable.store")


def test_a_plugin_in_an_archive_is_refused_before_spark_starts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.install("shelf_zipped.entry", "shelf_zipped.store", "shelf_zipped", folder=tmp_path / "unpacked")
    with zipfile.ZipFile(tmp_path / "plugin.zip", "w") as archive:
        for path in (tmp_path / "unpacked").rglob("*.py"):
            archive.write(path, path.relative_to(tmp_path / "unpacked"))
    monkeypatch.syspath_prepend(str(tmp_path / "plugin.zip"))
    with pytest.raises(SpecError) as refused:
        world.archive()
    assert refused.value.message.startswith(
        "sink 'shelf' of eos-shelf 1.2.3 cannot be sent to the workers of the cluster: "
    )
    assert "plugin.zip/shelf_zipped/__init__.py is not a file" in refused.value.message
    assert "install eos-shelf from a wheel" in refused.value.remedy


class _Context:
    """The part of a SparkContext that takes modules for a cluster's workers."""

    master = "spark://spark.example:7077"
    applicationId = "app-1"  # noqa: N815 as Spark has it

    def __init__(self) -> None:
        self.sparkContext = self  # a session has it
        self.sent: list[Path] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802 as Spark has it
        self.sent.append(Path(path))


def test_a_job_of_a_user_sends_each_archive_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.install("shelf_shipped.entry", "shelf_shipped.store", "shelf_shipped")
    monkeypatch.setattr(shipping, "_sent", set())
    session: Any = _Context()
    shipping.ship(session)  # a format, which is registered before a spec is known
    for _ in range(2):
        shipping.ship(session, world.spec())
    modules, of_plugins = session.sent
    assert modules.name == shipping.ARCHIVE
    world.import_from(of_plugins, "shelf_shipped.entry", "shelf_shipped.store")
    session.applicationId = "app-2"
    shipping.ship(session, world.spec())
    assert [path.name for path in session.sent[2:]] == [modules.name, of_plugins.name]
    session.master = "local[2]"
    session.applicationId = "app-3"
    shipping.ship(session, world.spec())
    assert len(session.sent) == 4


def test_a_plugin_with_a_compiled_module_is_refused(world: World) -> None:
    world.install("shelf_compiled.entry", "shelf_compiled.store", "shelf_compiled")
    (world.dist / "shelf_compiled" / f"fast{EXTENSION_SUFFIXES[-1]}").touch()
    with pytest.raises(SpecError, match=r"eos-shelf 1\.2\.3 cannot be sent .* fast\.so is a compiled module"):
        world.archive()


def test_a_namespace_in_two_folders_is_refused(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.install("shelf_divided.entry", "shelf_divided.store")
    (tmp_path / "other" / "shelf_divided").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    with pytest.raises(SpecError, match=r"package shelf_divided has no __init__\.py and is in several folders"):
        world.archive()
