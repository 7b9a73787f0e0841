"""`eos schema`: what a spec may say, for editors and other programs."""

from __future__ import annotations

from connectors.spec import json_schema
from spark_jobs.cli.options import Debug
from spark_jobs.cli.output import out


def schema(debug: Debug = False) -> None:
    """Print the JSON Schema of a spec, for completion and checks in an editor.

    An editor with the YAML language server uses it where the spec's first line says so:

        # yaml-language-server: $schema=./eos.schema.json

    The schema knows keys, values and types. What goes beyond one value (names that stand twice, steps that read from
    each other, what `${…}` stands for) only `eos validate` sees.

    Exit code: 0.

    Examples:

        eos schema > eos.schema.json
    """
    out.facts(json_schema())
