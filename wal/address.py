"""Where objects lie: `s3://bucket/prefix`, `gs://…`, `az://…`, `hdfs://namenode:port/path`, and options of a client.

Where the store itself is follows from this alone. A client library would also take an endpoint from the environment;
a task on a machine with another environment would then write to another store than the driver reads from. Only
credentials may come from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from wal.errors import ObjectAddressError, ObjectOptionsError

SCHEMES: Final = ("s3", "gs", "az", "hdfs")

EXAMPLES: Final = ("s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix", "hdfs://namenode:8020/path")

_OF_ALL: Final = ("endpoint", "allow_http", "root_certificate")
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": (
        *_OF_ALL,
        "skip_signature",
        "region",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "virtual_hosted_style_request",
        "server_side_encryption",
        "sse_kms_key_id",
    ),
    "gs": (*_OF_ALL, "service_account_key", "bearer_token"),
    "az": (
        *_OF_ALL,
        "skip_signature",
        "account_name",
        "account_key",
        "sas_key",
        "tenant_id",
        "client_id",
        "client_secret",
    ),
    "hdfs": ("namenodes", "config_dir", "principal", "keytab"),
}
"""What may be said of a store, by scheme, as obstore calls it; but for `endpoint`, which is the same word for all, and
for HDFS, whose client is another one (`wal.hdfs`). Puts to Google are signed even with `skip_signature`."""

_WHERE: Final = ("endpoint", "account_name", "namenodes", "config_dir", "principal", "keytab")
"""Options that tell one store from another, or name a file. None of them is a secret."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_NAMENODE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?")
"""A host with the port of the namenode's RPC, or the name of a nameservice."""
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")
_SWITCHES: Final = {"allow_http", "skip_signature", "virtual_hosted_style_request"}
_STEP: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._=-]+")
_MAX_PREFIX: Final = 700  # characters; a key has at most 1024 bytes, and the names below it 200
_ELSEWHERE: Final = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "wasb": "az", "wasbs": "az", "azure": "az",
    "adl": "az", "webhdfs": "hdfs", "swebhdfs": "hdfs",
}  # fmt: skip
"""How Spark, Hadoop and others spell it."""


@dataclass(frozen=True, slots=True, repr=False)
class ObjectAddress:
    """Picklable. Its repr and its text have no secrets."""

    scheme: str
    bucket: str
    prefix: str
    options: tuple[tuple[str, str], ...] = ()  # sorted; may hold secrets

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}"

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.options if name in _WHERE}
        return f"ObjectAddress({self}, {shown})"

    @property
    def endpoint(self) -> str:
        """URL of the store, never from the environment. Of S3's region, too, a wrong one is answered with an error."""
        options = dict(self.options)
        if "endpoint" in options:
            return options["endpoint"]
        if self.scheme == "hdfs":
            return f"hdfs://{self.bucket}"
        if self.scheme == "az":
            return f"https://{options['account_name']}.blob.core.windows.net"
        if self.scheme == "gs":
            return "https://storage.googleapis.com"
        host = f"s3.{self.region}.amazonaws.com"
        return (
            f"https://{self.bucket}.{host}"
            if options.get("virtual_hosted_style_request") == "true"
            else f"https://{host}"
        )

    @property
    def region(self) -> str:
        """Of S3; this machine's own where none is given."""
        own = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return dict(self.options).get("region") or own or "us-east-1"

    @property
    def root(self) -> ObjectAddress:
        """The same store, without a prefix."""
        return replace(self, prefix="")

    def below(self, folder: str) -> ObjectAddress:
        """The same store, with a further part of the prefix."""
        return replace(self, prefix=f"{self.prefix}/{folder}")

    def mask(self, text: str) -> str:
        """The text without the options' values."""
        for name, value in self.options:
            if value and name not in _WHERE:
                text = text.replace(value, "***")
        return text

    @classmethod
    def parse(cls, url: str, options: Mapping[str, str] | None = None) -> ObjectAddress:
        """Of a URL and OPTIONS. Raises ObjectAddressError (or ObjectOptionsError) with the right spelling.

        A prefix has only characters that every store and every tool take as they are; a slash at its end is dropped.
        """
        match = _URL.fullmatch(url)
        scheme, rest = (match[1].lower(), match[2]) if match else ("", "")
        if scheme in _ELSEWHERE:
            raise _other_spelling(scheme, rest)
        bucket, _, prefix = rest.removesuffix("/").partition("/")
        if scheme == "hdfs" and not bucket:
            message = "hdfs:/// leaves the namenode to this machine's settings, and another machine may have others"
            raise ObjectAddressError(message, remedy="write hdfs://namenode:8020/path, or hdfs://nameservice/path")
        _check_authority(scheme, bucket)
        if scheme not in SCHEMES or not (_NAMENODE if scheme == "hdfs" else _BUCKET).fullmatch(bucket):
            raise ObjectAddressError("this is not the URL of an object store", remedy=f"write {', '.join(EXAMPLES)}")
        _check_prefix(scheme, bucket, prefix)
        checked = _checked(scheme, options or {})
        if scheme == "hdfs":
            _check_namenodes(bucket, options or {})
        return cls(scheme, bucket, prefix, checked)


def is_object_url(text: str) -> bool:
    """Whether it is, or is meant to be, the URL of an object store, not a path."""
    match = _URL.fullmatch(text)
    return match is not None and match[1].lower() in (*SCHEMES, *_ELSEWHERE)


def _check_authority(scheme: str, bucket: str) -> None:
    """Raise ObjectAddressError for a mistake that has a known reason. Its text quotes nothing: it may be a password."""
    if scheme not in SCHEMES:
        return
    if "@" in bucket and scheme == "hdfs":
        message = "a URL of HDFS has no user here: Kerberos or HADOOP_USER_NAME names it"
    elif "@" in bucket:
        message = "a URL of a store has no credentials: they are options of the store, or in the environment"
    elif scheme != "hdfs" and not _BUCKET.fullmatch(bucket) and _BUCKET.fullmatch(bucket.lower()):
        message = "the name of a bucket or container is in lower case"
    else:
        return
    raise ObjectAddressError(message, remedy=f"write {EXAMPLES[SCHEMES.index(scheme)]}")


def _check_prefix(scheme: str, bucket: str, prefix: str) -> None:
    """Raise ObjectAddressError. Its text quotes nothing: a signature may stand behind `?`."""
    remedy = f"write {scheme}://{bucket}/eos/log, or another prefix"
    if not prefix:
        message = "the prefix below the bucket is missing"
    elif "?" in prefix:
        message = "a URL of a store has no parameters"
        remedy = f"write {scheme}://{bucket}/eos/log, and its options apart"
    elif len(prefix) > _MAX_PREFIX:
        message = f"the prefix below the bucket has more than {_MAX_PREFIX} characters"
    elif not all(_STEP.fullmatch(step) for step in prefix.split("/")):
        message = "the prefix below the bucket has an empty part, or other characters than A-Z a-z 0-9 . _ = -"
    else:
        return
    raise ObjectAddressError(message, remedy=remedy)


def _checked(scheme: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if unknown := sorted(options.keys() - OPTIONS[scheme]):
        message = f"{scheme}:// has no option {', '.join(unknown)}"
        raise ObjectOptionsError(message, remedy=f"write {', '.join(OPTIONS[scheme])}")
    for name in sorted(options.keys() & _SWITCHES):
        if options[name] not in ("true", "false"):
            raise ObjectOptionsError(f"the option {name} is neither true nor false", remedy="write true or false")
    if not _REGION.fullmatch(options.get("region", "auto")):
        message = "the option region has other characters than a-z 0-9 -"
        raise ObjectOptionsError(message, remedy="write a region such as eu-central-1")
    if ("access_key_id" in options) != ("secret_access_key" in options):
        message = "the options access_key_id and secret_access_key are one login"
        raise ObjectOptionsError(message, remedy="write both, or neither: then the environment has the credentials")
    if scheme == "az" and not options.get("account_name"):
        raise ObjectOptionsError("az:// needs to know the storage account", remedy="give the option account_name")
    endpoint = options.get("endpoint", "https://default")
    if not re.match(r"https?://[^/@?#]+(/[^@?#]*)?$", endpoint):
        raise ObjectOptionsError("the endpoint is not a URL without a password", remedy="write https://host:port")
    if endpoint.startswith("http://") and options.get("allow_http") != "true":
        message = "the endpoint has no TLS, so that rows and signatures could be read on the way"
        raise ObjectOptionsError(message, remedy="write https://, or set allow_http: true on a network that you trust")
    return tuple(sorted(options.items()))


def _check_namenodes(authority: str, options: Mapping[str, str]) -> None:
    """Raise ObjectOptionsError where the option `namenodes`, or one of Kerberos, is wrong beside this URL."""
    names = options.get("namenodes")
    if names is not None and (":" in authority or not all(map(_is_host_and_port, names.split(",")))):
        message = "the option namenodes lists the namenodes of a nameservice, each with its port"
        remedy = "write hdfs://nameservice/path with namenodes: host1:8020,host2:8020"
        raise ObjectOptionsError(message, remedy=remedy)
    if ("principal" in options) != ("keytab" in options):
        message = "the options principal and keytab are one login"
        raise ObjectOptionsError(message, remedy="give both, or neither: then the ticket cache of `kinit` is used")


def _is_host_and_port(text: str) -> bool:
    return ":" in text and _NAMENODE.fullmatch(text.strip()) is not None


def _other_spelling(scheme: str, rest: str) -> ObjectAddressError:
    """Refused, not translated: whoever writes it so expects Hadoop's settings to hold, which nobody reads here."""
    here = _ELSEWHERE[scheme]
    bucket, _, prefix = re.split("[?#]", rest)[0].partition("/")  # behind it, perhaps a signature
    container, _, host = bucket.partition("@")
    if here == "hdfs":
        message = f"{scheme}:// is HDFS over HTTP, and the namenode is called by its RPC here"
        return ObjectAddressError(message, remedy="write hdfs://namenode:8020/path, with the port of the RPC")
    message = f"{scheme}:// is how Spark and Hadoop spell it, whose settings are not read here"
    if not _BUCKET.fullmatch(container) or (host and here != "az"):  # perhaps a password
        return ObjectAddressError(message, remedy=f"write {here}://, and what the client has to know as options")
    account = f" with the option account_name: {host.partition('.')[0]}" if here == "az" and host else ""
    return ObjectAddressError(message, remedy=f"write {here}://{container}/{prefix}{account}")
