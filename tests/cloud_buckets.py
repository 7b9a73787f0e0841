"""Buckets of Google Cloud Storage and containers of Azure, with an eye on them that shares no code with the storage."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from tests.object_store import Bucket
from tests.object_store import Request as WireRequest


@dataclass
class GoogleBucket(Bucket):
    """A bucket of Google. The test reads it by the JSON API, and the storage uses the XML API."""

    scheme: ClassVar = "gs"
    secret_option: ClassVar = "service_account_key"

    account: str

    def __post_init__(self) -> None:
        self.name = f"b-{secrets.token_hex(5)}"
        self._send("POST", "/storage/v1/b?project=tests", json.dumps({"name": self.name}).encode())

    def options(self, port: int | None = None) -> dict[str, str]:
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return {"endpoint": endpoint, "allow_http": "true", self.secret_option: self.account}

    def listed(self) -> list[str]:
        found = json.loads(self._send("GET", f"/storage/v1/b/{self.name}/o"))
        return [each["name"] for each in found.get("items", [])]

    def content(self, key: str) -> bytes:
        return self._send("GET", f"/storage/v1/b/{self.name}/o/{quote(key, safe='')}?alt=media")

    def write(self, key: str, content: bytes) -> None:
        query = urlencode({"uploadType": "media", "name": key})
        self._send("POST", f"/upload/storage/v1/b/{self.name}/o?{query}", content)

    def delete(self, key: str) -> None:
        self._send("DELETE", f"/storage/v1/b/{self.name}/o/{quote(key, safe='')}")

    def _send(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return _send(method, f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"})


@dataclass
class AzureContainer(Bucket):
    """A container of Azure. The test has a signature of the account in its URLs; the storage signs each request."""

    scheme: ClassVar = "az"
    secret_option: ClassVar = "account_key"
    no_bucket: ClassVar = "404, ContainerNotFound"

    account: str
    key: str

    def __post_init__(self) -> None:
        self.name = f"c-{secrets.token_hex(5)}"
        self._send("PUT", "", {"restype": "container"}, b"")

    def options(self, port: int | None = None) -> dict[str, str]:
        endpoint = f"http://127.0.0.1:{port or self.port}/{self.account}"
        names = {"account_name": self.account, self.secret_option: self.key}
        return {"endpoint": endpoint, "allow_http": "true", **names}

    @cached_property
    def sas(self) -> dict[str, str]:
        """A signature that allows everything, as parameters of a URL."""
        given = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": "2099-01-01T00:00:00Z", "sip": "", "spr": ""}
        given |= {"sv": "2020-12-06", "ses": ""}
        text = "".join(f"{line}\n" for line in (self.account, *given.values()))
        signature = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        return {**{name: value for name, value in given.items() if value}, "sig": base64.b64encode(signature).decode()}

    def signed(self, request: WireRequest) -> WireRequest:
        """Return the request with the signature in its URL, which holds whatever its headers are."""
        line, _, headers = request.without("authorization").head.partition(b" HTTP/1.1")
        return replace(request, head=b"%s?%s HTTP/1.1%s" % (line, urlencode(self.sas).encode(), headers))

    def listed(self) -> list[str]:
        names: list[str] = []
        marker = ""
        while True:
            page = self._send("GET", "", {"restype": "container", "comp": "list", "marker": marker})
            found = ElementTree.fromstring(page)
            names += [each.text or "" for each in found.iterfind("Blobs/Blob/Name")]
            if not (marker := found.findtext("NextMarker") or ""):
                return names

    def content(self, key: str) -> bytes:
        return self._send("GET", key)

    def write(self, key: str, content: bytes) -> None:
        self._send("PUT", key, {}, content, {"x-ms-blob-type": "BlockBlob"})

    def delete(self, key: str) -> None:
        self._send("DELETE", key)

    def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] = {},
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> bytes:
        path = f"{self.account}/{self.name}{f'/{quote(key)}' if key else ''}?{urlencode({**query, **self.sas})}"
        return _send(method, f"http://127.0.0.1:{self.port}/{path}", body, {"x-ms-version": "2020-12-06", **headers})


def _send(method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    with urlopen(Request(url, body, headers, method=method), timeout=60) as answer:
        found: bytes = answer.read()
    return found
