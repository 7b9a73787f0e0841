"""Errors of the page's API."""

from __future__ import annotations

from eos.errors import ConnectorError


class BusyError(ConnectorError):
    """Another request connects to the same services."""

    code = "EOS-BUSY"


class NoRunError(ConnectorError):
    """No process would handle the request."""

    code = "EOS-NOT-RUNNING"
