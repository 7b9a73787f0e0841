"""Object stores of tests, as values of the fixture `s3_port`."""

from __future__ import annotations

from typing import Final

import pytest

_MINIO: Final = pytest.param("minio", marks=pytest.mark.minio)

ON_MINIO: Final = pytest.mark.parametrize("s3_port", [_MINIO], indirect=True)
"""Decorator of a test that runs on MinIO, as its fixtures `bucket` and `wire` do."""

ON_BOTH_STORES: Final = pytest.mark.parametrize("s3_port", ["moto", _MINIO], indirect=True)
"""Decorator of a test that runs on moto's server, and on MinIO."""
