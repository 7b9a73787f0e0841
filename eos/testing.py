"""Test suites for connectors that live outside of this project: derive a class, and pytest runs its tests.

- `SinkCompliance`: a `Sink` of your own. Provide the fixture `target`, a `SinkTarget` for each `Row` of `SCHEMA`.
- `UpsertCompliance`: the same for a sink that merges rows by a key.
- `SourceCompliance`: a source. Provide `make_source`, `append` and `damages`.
- `FormatCompliance`: a format. Provide `make_format`, `encode` and `bad_values`.
- `TokenStoreCompliance`, `PreparingStoreCompliance`: a small store. Provide `make_store` and `read`.

Needs pytest: `pip install 'eos-spark[testing]'`. docs/tutorial/plugins.md has an example of each.
"""

from __future__ import annotations

try:
    import pytest
except ModuleNotFoundError as error:
    if error.name != "pytest":
        raise
    message = "eos.testing needs pytest, which is not installed: pip install 'eos-spark[testing]'"
    raise ModuleNotFoundError(message, name="pytest") from None

pytest.register_assert_rewrite("connectors.testing")

from connectors.testing.compliance import SinkCompliance, UpsertCompliance  # noqa: E402
from connectors.testing.formats import FormatCompliance  # noqa: E402
from connectors.testing.rows import SCHEMA, Row  # noqa: E402
from connectors.testing.sources import Damage, SourceCompliance  # noqa: E402
from connectors.testing.stores import PreparingStoreCompliance, TokenStoreCompliance  # noqa: E402
from connectors.testing.target import Target as SinkTarget  # noqa: E402

__all__ = [
    "SCHEMA",
    "Damage",
    "FormatCompliance",
    "PreparingStoreCompliance",
    "Row",
    "SinkCompliance",
    "SinkTarget",
    "SourceCompliance",
    "TokenStoreCompliance",
    "UpsertCompliance",
]
