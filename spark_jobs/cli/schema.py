"""`eos schema`: what a spec may say, for editors and other programs."""

from __future__ import annotations

from connectors.spec import json_schema
from spark_jobs.cli.options import Debug
from spark_jobs.cli.output import out


def schema(debug: Debug = False) -> None:
    """Print the JSON Schema of a spec, for completion and checks in an editor.

    An editor with the YAML language server uses it if the spec begins with this line:

        # yaml-language-server: $schema=./eos.schema.json

    The schema covers keys, values and types. Only `eos validate` checks what goes beyond one value: duplicate names,
    steps that read from each other, the values of `${…}`.

    Exit code: 0.

    Examples:

        eos schema > eos.schema.json
    """
    with out.kept():
        found = json_schema()
    out.facts(found)
