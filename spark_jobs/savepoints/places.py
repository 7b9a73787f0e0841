"""The place of savepoints, or the one savepoint, that a path or a URL names; and the options of its store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.savepoints.folder import FolderPlace, FolderSavepoint
from spark_jobs.savepoints.place import At, Place, Savepoint
from spark_jobs.savepoints.store import StorePlace
from spark_jobs.savepoints.store_savepoint import StoreSavepoint
from wal.address import EXAMPLES, ObjectAddress, is_object_url
from wal.errors import ObjectAddressError

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/")
_SECRET: Final = re.compile(r"(:/+).*(?=@)|(?<=[?#]).*", re.DOTALL)
_SAVEPOINTS: Final = "savepoints"


def place_at(at: At) -> Place:
    """Return the place. Sends nothing. Raises SavepointError for options of a store that cannot be right."""
    return StorePlace(at) if isinstance(at, ObjectAddress) else FolderPlace(at)


def savepoint_at(at: At) -> Savepoint:
    """Return the savepoint. Sends nothing. Raises as `place_at`."""
    return StoreSavepoint(at) if isinstance(at, ObjectAddress) else FolderSavepoint(at)


def default_place(spec: Spec) -> At:
    """Return where savepoints are written unless the user names another place."""
    at = spec.checkpoint.location_at
    return at.below(_SAVEPOINTS) if isinstance(at, ObjectAddress) else at / _SAVEPOINTS


def is_url(text: str) -> bool:
    """Whether it is, or is meant to be, a URL and not a path."""
    return _URL.match(text) is not None


def parse(text: str, spec: Spec | None = None) -> At:
    """Return the folder, as an absolute path, or the address with the options of its store. Raises SpecError.

    `spec`: its options for a store of the same kind are used, of its location or else of its log. Without them the
    client has no options, and credentials from the environment.
    """
    if not is_url(text):
        return Path(text).absolute()
    if not is_object_url(text):
        message = f"{_shown(text)} is not the URL of an object store"
        raise SpecError(message, remedy=f"write a folder, {', '.join(EXAMPLES)}")
    try:
        return ObjectAddress.parse(text, _options(text, spec) if spec is not None else {})
    except ObjectAddressError as error:
        message = f"{_shown(text)}: {error.message}"
        remedy = error.remedy if spec is not None else f"{error.remedy}; --spec names a spec with options of the store"
        raise SpecError(message, remedy=remedy) from error


def _shown(url: str) -> str:
    """Return the URL without a password and without a signature, which other tools take there."""
    return _SECRET.sub(lambda found: f"{found[1] or ''}***", url)


def _options(url: str, spec: Spec) -> dict[str, str]:
    scheme, _, rest = url.partition("://")
    bucket = rest.partition("/")[0]
    for store in (spec.checkpoint.location_at, spec.checkpoint.log_at):
        if isinstance(store, ObjectAddress) and store.scheme == scheme.lower():
            options = dict(store.options)
            if bucket == store.bucket:
                return options
            options.pop("namenodes", None)  # of the other nameservice
            if "endpoint" in options and options.get("virtual_hosted_style_request") == "true":
                message = f"{_shown(url)}: the option endpoint is of the bucket {store.bucket}"
                raise SpecError(message, remedy="use that bucket, or an endpoint of all buckets")
            return options
    return {}
