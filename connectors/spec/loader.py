"""From a file to a Spec, or to every mistake that is in it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from connectors.api.document import Document, Section, Text, child
from connectors.api.entry import SourceEntry
from connectors.api.mistakes import Path as KeyPath
from connectors.api.mistakes import SpecMistakesError, nearest
from connectors.api.model import WRONG, shown
from connectors.api.plugins import SOURCES, load
from connectors.spec.graph import check_flow, check_graph, check_mode
from connectors.spec.reading import document_of, read_document
from connectors.spec.spec import Spec
from connectors.spec.sql_check import check_sql
from connectors.spec.yaml_reader import scalar

_KINDS: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_QUOTED: Final = re.compile(r"'([^']*)'")


def load_spec(path: str | Path, environ: Mapping[str, str] | None = None) -> Spec:
    """Read a spec file, fill in its `${VARIABLE}`s, and return the validated spec.

    Called by: every command once, and a program before `run`. Blocks only to read the file and the files that it names;
    touches no service. It may be called from any thread.

    Args:
        path: of the YAML file. Relative paths in the spec start at its folder.
        environ: values of the variables. None: those of this process.

    Raises:
        SpecError: and nothing else. Its message lists all mistakes with their lines, and shows no secret.
    """
    return _spec_of(read_document(Path(path), os.environ if environ is None else environ))


def load_text(content: bytes, environ: Mapping[str, str]) -> Spec:
    """Return the validated spec of a text that is not in a file, as `load_spec` does. Raises SpecError.

    Relative paths start at the working directory. Messages call the text `-`.
    """
    return _spec_of(document_of(content, "-", Path.cwd(), environ))


def load_source(entry: str, environ: Mapping[str, str], folder: Path | None = None) -> SourceEntry:
    """Return the validated entry of one source, called `incoming`. Raises SpecError.

    Args:
        entry: lines of YAML as in Template.entry.
        environ: values of the variables.
        folder: where relative paths start; None: the working directory.
    """
    text = f"sources:\n  - name: incoming\n{entry}"
    document = document_of(text.encode(), "-", folder or Path.cwd(), environ)
    sources = child(document.root, "sources")
    found = child(sources[1], 0) if sources is not None else None
    if not document.mistakes and found is not None and isinstance(found[1], Section):
        source = found[1]
        model = load(SOURCES, str(source["connector"]), SourceEntry)
        try:
            return model.model_validate(source, context=document)
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                _report_error(document, {**error, "loc": ("sources", 0, *error["loc"])})
    raise SpecMistakesError.of(document.file, document.mistakes) from None


def _spec_of(document: Document) -> Spec:
    spec = _validate(document)
    check_graph(document)
    check_mode(document)
    columns = check_sql(document)
    if spec is not None and not document.mistakes:
        check_flow(document, spec, columns)
    if document.mistakes or spec is None:
        raise SpecMistakesError.of(document.file, document.mistakes) from None
    return spec


def _validate(document: Document) -> Spec | None:
    try:
        return Spec.model_validate(document.root, context=document)
    except ValidationError as errors:
        found = errors.errors(include_url=False)
    changed = [_read_as_written(document, error) for error in found]
    if any(changed):
        return _validate(document)
    for error in found:
        _report_error(document, error)
    return None


_KINDS_OF_TEXT: Final[Mapping[str, type[int | float | bool]]] = {
    "int_type": int,
    "float_type": float,
    "bool_type": bool,
}
"""Errors of a text where another kind of value belongs, with this kind."""


def _read_as_written(document: Document, error: ErrorDetails) -> bool:
    """Replace a text from a reference by the number or boolean that belongs there.

    A reference has no type: `${SLOTS}` is 2 where a number belongs, and "2" where a text belongs.

    Returns:
        Whether the document has changed.
    """
    path = _path(document, error)
    container: object = document.root
    for part in path[:-1]:
        following = child(container, part)
        container = following[1] if following is not None else None
    found = child(container, path[-1]) if path else None
    kind = _KINDS_OF_TEXT.get(error["type"])
    if kind is None or found is None or not isinstance(found[1], Text):
        return False
    value = scalar(str(found[1]))
    if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
        return False
    if isinstance(value, bool) and kind is not bool:
        return False
    container[path[-1]] = value  # type: ignore[index]  # `child` has found the key in it
    return True


def _report_error(document: Document, error: ErrorDetails) -> None:
    """Add what one of pydantic's errors means to the document's mistakes."""
    kind, context = error["type"], error.get("ctx", {})
    path = _path(document, error)
    if kind == WRONG:
        where = (*path, context["at"]) if context["at"] else path
        document.report(where, context["found"], tuple(context["allowed"]), context["suggestion"])
    elif kind == "missing":
        _report_missing(document, path)
    elif kind in {"union_tag_not_found", "union_tag_invalid"}:
        _report_tag(document, path, kind, context)
    elif kind == "literal_error":
        _report_choice(document, path, error["input"], _QUOTED.findall(context["expected"]) or [context["expected"]])
    elif kind in _KINDS:
        _report_type(document, path, error["input"], _KINDS[kind])
    else:
        document.report(path, *_bound(kind, context, error))


def _path(document: Document, error: ErrorDetails) -> KeyPath:
    """The location as a path of the document: pydantic puts the tag of a union's member between two keys."""
    location = error["loc"]
    value: object = document.root
    path: KeyPath = ()
    for index, part in enumerate(location):
        following = child(value, part)
        if following is not None:
            value = following[1]
        elif error["type"] != "missing" or index < len(location) - 1:
            continue
        path = (*path, part)
    return path


def _report_missing(document: Document, path: KeyPath) -> None:
    """Silent where an unknown key is likely to be this one: that mistake is reported already."""
    if path not in document.meant:
        document.report(path, f"missing key '{path[-1]}'")


def _report_tag(document: Document, path: KeyPath, kind: str, context: dict[str, str]) -> None:
    key = _QUOTED.findall(context["discriminator"])[-1]  # the last is the alias: the key of the spec
    path = (*path, key)
    if kind == "union_tag_not_found":
        document.report(path, f"missing key '{path[-1]}'")
    else:
        _report_choice(document, path, context["tag"], _QUOTED.findall(context["expected_tags"]))


def _report_choice(document: Document, path: KeyPath, value: object, allowed: list[str]) -> None:
    near = nearest(value, allowed) if isinstance(value, str) else ""
    document.report(path, f"wrong value: {shown(value)}", tuple(allowed), near)


def _report_type(document: Document, path: KeyPath, value: object, expected: str) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    hint = "; write it in quotes" if number and expected == "text" else ""
    document.report(path, f"wrong type: {shown(value)}{hint}", (expected,))


def _bound(kind: str, context: dict[str, object], error: ErrorDetails) -> tuple[str, tuple[str, ...]]:
    value = error["input"]
    if kind == "greater_than_equal":
        return f"too small: {value}", (f"at least {context['ge']}",)
    if kind == "less_than_equal":
        return f"too large: {value}", (f"at most {context['le']}",)
    if kind in {"string_too_short", "too_short"}:
        unit = "character" if isinstance(value, str) else "entry"
        return f"{shown(value)} is too short", (f"at least {context['min_length']} {unit}",)
    if kind in {"string_too_long", "too_long"}:
        return f"too long: {len(str(value))} characters", (f"at most {context['max_length']} characters",)
    return error["msg"][0].lower() + error["msg"][1:], ()
