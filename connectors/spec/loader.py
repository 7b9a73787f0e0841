"""From a file to a Spec, or to every mistake that is in it."""

from __future__ import annotations

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


def load_spec(path: Path, environ: Mapping[str, str]) -> Spec:
    """Read, resolve and validate a spec. Touches no service; reads the file and the files that it names.

    Called once by every command. Raises SpecError and nothing else: with all mistakes at once (SpecMistakesError), none
    of which shows a secret.
    """
    document = read_document(path, environ)
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
