"""From a file to a Spec, or to every mistake that is in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from connectors.api.document import Document
from connectors.api.mistakes import SpecMistakesError
from connectors.spec.graph import check_graph, check_trunk
from connectors.spec.mode import check_mode
from connectors.spec.reading import read_document
from connectors.spec.spec import Spec
from connectors.spec.translate import report_error


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
    document = read_document(Path(path), os.environ if environ is None else environ)
    spec = _validate(document)
    check_graph(document)
    check_mode(document)
    if spec is not None and not document.mistakes:
        check_trunk(document, spec)
    if document.mistakes or spec is None:
        raise SpecMistakesError.of(document.file, document.mistakes) from None
    return spec


def _validate(document: Document) -> Spec | None:
    try:
        return Spec.model_validate(document.root, context=document)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            report_error(document, error)
        return None
