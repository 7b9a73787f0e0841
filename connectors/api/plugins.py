"""Plugins: entry points by which installed distributions bring connectors, formats, secrets and databases.

The connectors of this distribution are entry points as well. A plugin is imported when a spec names it, and not before:
one that is broken affects no other spec.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points, version
from typing import Any, Final, TypeVar

from connectors.api.mistakes import nearest
from connectors.foreign import described
from eos.errors import SpecError

API_VERSION: Final = 1
"""Version of the interface between the core and a plugin. A plugin declares the one that it was written for."""

DISTRIBUTION: Final = "eos-spark"
SINKS: Final = "eos.sinks"
SOURCES: Final = "eos.sources"
FORMATS: Final = "eos.formats"
SECRETS: Final = "eos.secrets"
DATABASES: Final = "eos.databases"
GROUPS: Final = {SOURCES: "source", SINKS: "sink", FORMATS: "format", SECRETS: "secret", DATABASES: "database"}
"""Groups of entry points, each with the word for one member."""

_MAX_REASON: Final = 120  # characters of another library's error; a mistake of the spec is cut at 300

T = TypeVar("T")


class PluginError(SpecError):
    """A plugin that cannot be used."""

    code = "EOS-PLUGIN"


class UnknownPluginError(PluginError):
    """A name that no installed distribution brings."""

    def __init__(self, message: str, *, remedy: str = "", known: Sequence[str] = (), suggestion: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.known = tuple(known)
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of an installed distribution."""

    group: str
    name: str
    distribution: str
    version: str
    origin: str  # the folder or archive that the distribution is in
    point: EntryPoint

    @property
    def is_built_in(self) -> bool:
        """Whether this project brings it."""
        return self.distribution == DISTRIBUTION

    @property
    def module(self) -> str:
        """The module that the entry point names; empty if its value is malformed."""
        match = EntryPoint.pattern.match(self.point.value)
        return match["module"] if match else ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed(group: str) -> Mapping[str, Sequence[Plugin]]:
    """Return the plugins of a group by name. Imports none. Several of one name are of several distributions."""
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _installed(group: str, path: tuple[str, ...]) -> Mapping[str, Sequence[Plugin]]:
    """`path`: the part of the cache's key that changes where a process adds a folder with distributions."""
    found: dict[str, dict[tuple[str, str], Plugin]] = {}
    for point in entry_points(group=group):
        dist = point.dist
        name = _one_line(dist.name if dist is not None else "") or "an unknown distribution"
        origin = str(dist.locate_file("")) if dist is not None else ""
        plugin = Plugin(group, point.name, name, _one_line(dist.version if dist is not None else ""), origin, point)
        found.setdefault(point.name, {}).setdefault((name, point.value), plugin)
    return {name: tuple(found[name].values()) for name in sorted(found)}


def _one_line(text: str | None) -> str:
    """Return a text of a distribution's metadata on one line; empty where the metadata lacks it."""
    return " ".join((text or "").split())


def load(group: str, name: str, base: type[T]) -> type[T]:
    """Return the class that a plugin names, a subclass of `base`. Imports its module. Raises PluginError."""
    found = find(group, name)
    loaded = _import(found)
    what = f"{GROUPS[group]} {name!r} of {found}"
    if not isinstance(loaded, type) or not issubclass(loaded, base):
        message = f"{what} cannot be used: {found.point.value} is not a subclass of {base.__name__}"
        raise PluginError(message, remedy=_other_version(found))
    declared = getattr(loaded, "api_version", None)
    if type(declared) is not int or declared != API_VERSION:
        message = f"{what} was written for version {declared} of the plugin API; this is version {API_VERSION}"
        raise PluginError(message, remedy=_other_version(found))
    return loaded


def find(group: str, name: str) -> Plugin:
    """Return the plugin of this name without importing it. Raises PluginError if there is not exactly one."""
    found = installed(group)
    plugins = found.get(name, ())
    if not plugins:
        raise _unknown(group, name, tuple(found))
    if len(plugins) > 1:
        others = [each for each in plugins if not each.is_built_in]
        message = f"{GROUPS[group]} {name!r} is brought by {len(plugins)} distributions: {', '.join(map(str, plugins))}"
        if not others:  # a foreign one has the name of this project
            folders = ", ".join(each.origin for each in plugins)
            raise PluginError(message, remedy=f"remove the foreign distribution: {folders}")
        raise PluginError(message, remedy=f"uninstall all but one, for example: pip uninstall {others[0].distribution}")
    return plugins[0]


def metadata() -> Iterator[tuple[str, str]]:
    """Yield name and text of the files by which an archive of this project has its entry points."""
    found = distribution(DISTRIBUTION)
    folder = f"{DISTRIBUTION.replace('-', '_')}-{found.version}.dist-info"
    yield f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {found.version}\n"
    yield f"{folder}/entry_points.txt", found.read_text("entry_points.txt") or ""


def _unknown(group: str, name: str, known: Sequence[str]) -> UnknownPluginError:
    if not known:
        message = f"the installed {DISTRIBUTION} has no entry points {group!r}: its metadata is missing or old"
        return UnknownPluginError(message, remedy=f"install {DISTRIBUTION} again, in a checkout: pip install -e .")
    near = nearest(name, known)
    message = f"there is no {GROUPS[group]} {name!r}" + (f"; did you mean {near!r}?" if near else "")
    remedy = f"use one of {', '.join(known)}, or install the distribution that brings it (`eos connectors`)"
    return UnknownPluginError(message, remedy=remedy, known=known, suggestion=near)


def _import(plugin: Plugin) -> Any:
    try:
        return plugin.point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's module may raise anything
        reason = described(error)[:_MAX_REASON]
        message = f"{GROUPS[plugin.group]} {plugin.name!r} of {plugin} cannot be imported: {reason}"
        raise PluginError(message, remedy=_other_version(plugin)) from error


def _other_version(plugin: Plugin) -> str:
    if plugin.is_built_in:
        return f"install {DISTRIBUTION} again: its metadata and its modules differ"
    return (
        f"install a version of {plugin.distribution} for {DISTRIBUTION} {_own_version()}, or remove it: "
        f"pip uninstall {plugin.distribution}"
    )


def _own_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return f"with plugin API {API_VERSION}"
