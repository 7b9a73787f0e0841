"""The page of the REST API, from the description that the API serves at /openapi.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI

from docsite.reference.tables import cell, table
from spark_jobs.page.api import ROUTERS

_HEAD: Final = """\
# REST API: requests and answers

Generated from the description that a page serves at `/openapi.json`. [REST API](rest.md) describes
tokens, refusals and probes. Each refusal has the form of `Refused`.

"""

Node = Mapping[str, Any]


def description() -> dict[str, Any]:
    """Return the OpenAPI document of all paths below /api."""
    api = FastAPI(title="eos")
    for router in ROUTERS:
        api.include_router(router)
    return api.openapi()


def page() -> str:
    """Return the page."""
    api = description()
    paths = [_request(method, path, request) for path, node in api["paths"].items() for method, request in node.items()]
    schemas = [_schema(name, node) for name, node in api["components"]["schemas"].items() if "properties" in node]
    return "\n".join([_HEAD, "## Requests\n", *paths, "## Values\n", *schemas])


def _request(method: str, path: str, request: Node) -> str:
    parts = [f"### {method.upper()} `{path}`\n", cell(request.get("description", "")) + "\n"]
    parameters = [
        (f"`{each['name']}`", each["in"], _kind(each["schema"]), cell(each.get("description", "")))
        for each in request.get("parameters", [])
        if each["in"] != "path"
    ]
    if parameters:
        parts.append(table(("parameter", "in", "type", "meaning"), parameters))
    answers = []
    for status, answer in request["responses"].items():
        content = answer.get("content", {}).get("application/json", {}).get("schema", {})
        answers.append((status, _kind(content) if content else "", cell(answer.get("description", ""))))
    parts.append(table(("status", "answer", "meaning"), answers))
    return "\n".join(parts)


def _schema(name: str, node: Node) -> str:
    rows = [(f"`{key}`", _kind(value), cell(value.get("description", ""))) for key, value in node["properties"].items()]
    return f"### {name}\n\n{cell(node.get('description', ''))}\n\n{table(('field', 'type', 'meaning'), rows)}"


def _kind(node: Node) -> str:
    """Return the type of a value, with a link to the table of its fields."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return f"[{name}](#{re.sub(r'[^a-z0-9_-]', '', name.lower())})"
    if "enum" in node:
        return " or ".join(f"`{each}`" for each in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "anyOf" in node:
        return " or ".join(_kind(each) for each in node["anyOf"])
    if node.get("type") == "array":
        return f"list of {_kind(node.get('items', {}))}"
    return str(node.get("type", "any value"))
