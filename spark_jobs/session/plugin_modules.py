"""Modules of the plugins that a spec names, as the workers of a cluster need them.

A plugin is a package, a package without `__init__.py`, a part of a namespace that several distributions share, or
single modules. It may be installed in editable mode, so the name of its folder can differ from its package's name.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NoReturn

from connectors.api import plugins
from connectors.api.format import FormatEntry
from connectors.api.model import Strict
from connectors.api.plugins import Plugin
from connectors.spec import Spec
from eos.errors import SpecError


def plugin_files(spec: Spec) -> Iterator[tuple[str, Path]]:
    """Yield the path in the archive, and the file, of each module of the plugins that the spec names.

    Raises SpecError for a plugin that cannot be sent.
    """
    sent: set[str] = set()
    for plugin, module in _modules_of(spec):
        for name, root in _roots(plugin, module):
            if name in sent:
                continue
            sent.add(name)
            files = list(files_below(root))
            for path in files:
                if path.name.endswith(tuple(EXTENSION_SUFFIXES)):
                    _refuse(plugin, f"{path.name} is a compiled module, which Python cannot import from an archive")
            for path in files:
                yield (name if path == root else f"{name}/{path.relative_to(root).as_posix()}"), path


def files_below(root: Path) -> Iterator[Path]:
    """Yield the files of a package's folder in order, without compiled copies; or a module's file itself."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _modules_of(spec: Spec) -> Iterator[tuple[Plugin, str]]:
    """Yield each foreign plugin of the spec with the modules of its entry, its formats and its tasks."""
    groups = [*((plugins.SOURCES, each) for each in spec.sources), *((plugins.SINKS, each) for each in spec.outputs)]
    for group, entry in groups:
        plugin = plugins.find(group, entry.connector)
        yield from _of(plugin, [type(entry).__module__, *entry.task_modules])
        for part in dict(entry).values():
            if isinstance(part, FormatEntry):
                yield from _of(plugins.find(plugins.FORMATS, part.type), [type(part).__module__])
            elif isinstance(part, Strict):
                yield from _of(plugin, [type(part).__module__])


def _of(plugin: Plugin, modules: Iterable[str]) -> Iterator[tuple[Plugin, str]]:
    """Yield the modules of the plugin's own distribution. Workers have the libraries that a plugin needs."""
    if plugin.is_built_in:
        return
    yield plugin, plugin.module
    known = packages_distributions()
    for module in modules:
        owners = known.get(module.partition(".")[0])  # None: the distribution was installed in editable mode
        if owners is None or plugin.distribution in owners:
            yield plugin, module


def _roots(plugin: Plugin, module: str) -> Iterator[tuple[str, Path]]:
    """Yield path in the archive, and folder or file, of the outermost package that belongs to the plugin only.

    Packages above it without `__init__.py` are namespaces: other distributions may have parts there.
    """
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        found = _find(name)
        if found is None:
            if plugin.module == module:
                _refuse(plugin, f"Python finds no module {name}")
            return
        if found.origin is None or found.loader is None:  # a namespace
            if depth < len(parts) - 1 or found.submodule_search_locations is None:
                continue
            module_file = _find(module)
            if module_file is not None and module_file.submodule_search_locations is None:
                yield from _folders(plugin, name, found)  # modules without a package of their own
                return
            continue
        origin = Path(found.origin)
        if not origin.is_file():
            _refuse(plugin, f"{found.origin} is not a file on this machine's disk")
        path = "/".join(parts[:depth])
        if found.submodule_search_locations is None:
            yield path + origin.suffix, origin
        else:
            yield path, origin.parent
        return


def _folders(plugin: Plugin, name: str, namespace: ModuleSpec) -> Iterator[tuple[str, Path]]:
    folders = [Path(each) for each in namespace.submodule_search_locations or ()]
    found = [each for each in folders if each.is_dir()]
    if not found:
        _refuse(plugin, f"package {name} is not a folder on this machine's disk")
    if len(found) > 1:
        _refuse(plugin, f"package {name} has no __init__.py and is in several folders ({', '.join(map(str, found))})")
    yield name.replace(".", "/"), found[0]


def _find(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # ValueError: a module that some program has put together
        return None


def _refuse(plugin: Plugin, reason: str) -> NoReturn:
    what = f"{plugins.GROUPS[plugin.group]} {plugin.name!r} of {plugin}"
    message = f"{what} cannot be sent to the workers of the cluster: {reason}"
    remedy = (
        f"run with `spark.master: local[*]`, or install {plugin.distribution} from a wheel of pure Python, with an "
        "__init__.py in its package"
    )
    raise SpecError(message, remedy=remedy)
