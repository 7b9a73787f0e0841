"""One spec from several parts: `include` brings other files, and `profiles` the differences between environments.

Below all of them are the defaults of `eos.yaml`. Parts are merged as YAML nodes, which know their lines, so a message
names the file and the line that a value is from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from connectors.api.mistakes import Mistake, nearest
from connectors.spec import defaults, yaml_reader
from connectors.spec.yaml_reader import Node, Scalar, Sequence, Unreadable

PROFILE: Final = "EOS_PROFILE"
"""The environment variable that chooses a profile."""

_MOST_FILES: Final = 20

Report = Callable[[Mistake], None]
Read = Callable[[Path], str]
"""Returns the text of a file in the spec's folder. Raises Unreadable."""


def compose(node: Node, environ: Mapping[str, str], report: Report, read: Read, shared: Path | None = None) -> Node:
    """Return the spec with its included files, the chosen profile and the defaults merged into it.

    Where it has none of them, the very node is returned.

    Args:
        node: the spec's own file.
        environ: has the name of the profile.
        report: gets mistakes that do not end the reading.
        read: reads an included file, by its path as written.
        shared: the file of defaults, if there is one (`defaults.find`).
    """
    if not isinstance(node, yaml_reader.Mapping):
        return node
    composed = _composed(node, environ, report, read)
    if shared is None or not isinstance(composed, yaml_reader.Mapping):
        return composed
    _, pipeline = composed.entries.get("pipeline", (0, None))
    return _merged(defaults.checked(yaml_reader.read_yaml(read(shared), report, str(shared)), pipeline), composed)


def _composed(node: yaml_reader.Mapping, environ: Mapping[str, str], report: Report, read: Read) -> Node:
    own, included = _taken(node, "include")
    for path in reversed(list(_paths(included, report))):
        file = str(path)
        try:
            base = yaml_reader.read_yaml(read(path), report, file)
        except Unreadable as error:
            report(error.mistake)
            continue
        if not isinstance(base, yaml_reader.Mapping):
            report(Mistake("", base.line, "an included file is a mapping with keys of a spec"))
        elif "include" in base.entries:
            report(Mistake("include", base.entries["include"][0], "an included file includes no other file"))
        else:
            own = _merged(base, own)
    return _with_profile(own, environ.get(PROFILE, ""), report)


def _with_profile(node: yaml_reader.Mapping, name: str, report: Report) -> Node:
    rest, profiles = _taken(node, "profiles")
    if profiles is None:
        if name:
            found = f"the profile '{name}' is chosen (`--profile` or {PROFILE}), and the spec has no profiles"
            report(Mistake("", node.line, found))
        return rest
    if not isinstance(profiles, yaml_reader.Mapping):
        report(Mistake("profiles", profiles.line, "wrong type", ("a mapping from a profile's name to keys of a spec",)))
        return rest
    for each, (line, keys) in profiles.entries.items():
        if not isinstance(keys, yaml_reader.Mapping):
            report(Mistake(f"profiles.{each}", line, "wrong type", ("a mapping with keys of a spec",)))
            return rest
    if not name:
        return rest
    if name not in profiles.entries:
        known = tuple(profiles.entries)
        report(Mistake("profiles", profiles.line, f"unknown profile '{name}'", known, nearest(name, known)))
        return rest
    chosen = profiles.entries[name][1]
    return _merged(rest, chosen) if isinstance(chosen, yaml_reader.Mapping) else rest


def _taken(node: yaml_reader.Mapping, key: str) -> tuple[yaml_reader.Mapping, Node | None]:
    """Return a mapping without a key, and the value of the key; the very mapping if it lacks the key."""
    if key not in node.entries:
        return node, None
    rest = {name: entry for name, entry in node.entries.items() if name != key}
    return replace(node, entries=rest), node.entries[key][1]


def _paths(included: Node | None, report: Report) -> Iterator[Path]:
    """Yield the paths of `include`, which is a path or a list of paths."""
    if included is None:
        return
    items = included.items if isinstance(included, Sequence) else (included,)
    if len(items) > _MOST_FILES:
        report(Mistake("include", included.line, f"more than {_MOST_FILES} files"))
        return
    for item in items:
        if isinstance(item, Scalar) and isinstance(item.value, str) and item.value and "\0" not in item.value:
            yield Path(item.value)
        else:
            report(Mistake("include", item.line, "wrong value", ("a path, or a list of paths",)))


def _merged(base: yaml_reader.Mapping, over: yaml_reader.Mapping) -> yaml_reader.Mapping:
    """Return the keys of both; where both have a key, mappings are merged, and any other value is from `over`."""
    entries = dict(base.entries)
    for key, (line, node) in over.entries.items():
        if key not in entries:
            entries[key] = (line, node)
            continue
        base_line, below = entries[key]
        if isinstance(below, yaml_reader.Mapping) and isinstance(node, yaml_reader.Mapping):
            entries[key] = (base_line, _merged(below, node))
        elif _is_named(below) and _is_named(node):
            entries[key] = (base_line, _merged_by_name(below, node))
        else:
            entries[key] = (line, node)
    return replace(base, entries=entries)


def _merged_by_name(base: Node, over: Node) -> Sequence:
    """Return the entries of both lists. Entries of one name are merged, and new ones are at the end."""
    assert isinstance(base, Sequence)
    assert isinstance(over, Sequence)
    found = {_name(item): item for item in base.items}
    for item in over.items:
        name, below = _name(item), found.get(_name(item))
        both = isinstance(below, yaml_reader.Mapping) and isinstance(item, yaml_reader.Mapping)
        found[name] = _merged(below, item) if both else item  # type: ignore[arg-type]  # both are mappings
    return replace(base, items=tuple(found.values()))


def _is_named(node: Node) -> bool:
    """Return whether a node is a list of mappings with different names, such as `sources` and `sinks`."""
    if not isinstance(node, Sequence):
        return False
    names = [_name(item) for item in node.items]
    return all(names) and len(set(names)) == len(names)


def _name(node: Node) -> str:
    entry = node.entries.get("name") if isinstance(node, yaml_reader.Mapping) else None
    return entry[1].text if entry is not None and isinstance(entry[1], Scalar) else ""
