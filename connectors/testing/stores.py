"""The tests of a small store: `TokenStoreCompliance` and `PreparingStoreCompliance`. Two methods say how to reach it.

    class TestMyStore(TokenStoreCompliance):
        def make_store(self, folder, schema): ...   # an empty table with these columns
        def read(self, store): ...                  # all visible rows, as a pyarrow.Table

Every test of `SinkCompliance` runs on the sink that the framework builds from the store. Further tests call the store
itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.testing.behaviours.preparing_storing import PreparingStoring
from connectors.testing.behaviours.setting_back import SettingBack
from connectors.testing.behaviours.storing import Storing
from connectors.testing.behaviours.token_storing import TokenStoring
from connectors.testing.compliance import SinkCompliance
from connectors.testing.store_target import StoreTarget
from connectors.testing.target import Target


class _StoreCompliance(Storing, SinkCompliance, SettingBack):
    """All of both kinds."""

    claims_wait = False  # an applier that sleeps finds another token

    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        """A target over `make_store` and `read`."""
        return StoreTarget(tmp_path / "target", self.make_store, self.read, self.is_preparing)


class TokenStoreCompliance(TokenStoring, _StoreCompliance):
    """Level (a). Provide `make_store` and `read`."""


class PreparingStoreCompliance(PreparingStoring, _StoreCompliance):
    """Level (b). Provide `make_store` and `read`."""
