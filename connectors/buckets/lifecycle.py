"""A bucket's rules for old objects: lifecycle rules that would delete state, and versions that pile up.

Read from S3 only, by botocore, which is a package of the extra `aws`: obstore has no call for it. Google Cloud Storage
and Azure keep such rules behind other interfaces, which other rights open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from connectors.api.contracts import Finding
from wal.address import ObjectAddress

_TIMEOUT_S: Final = 10
_NO_RULES: Final = "NoSuchLifecycleConfiguration"
_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Storage classes whose objects cannot be read before they are restored."""

Rule = Mapping[str, Any]
"""A rule as botocore returns it."""


class _UnreadError(Exception):
    """The rules could not be read. The message holds no secret."""


def check_rules(at: ObjectAddress, check: str) -> Iterator[Finding]:
    """Return whether a rule of the bucket deletes or archives objects below the prefix, and whether versions pile up.

    Rules that cannot be read are warnings. `check`: the begin of each finding's name.
    """
    name = f"{check}: lifecycle rules"
    if at.scheme == "hdfs":  # without such rules
        return
    look = f"see that no lifecycle rule deletes or archives objects below {at}/"
    if at.scheme != "s3":
        detail = f"the rules of {at.scheme}://{at.bucket} were not read: this command can read the rules of S3"
        yield Finding(name, False, detail, look, fatal=False)
        return
    if find_spec("botocore") is None:
        detail = f"the rules of {at.scheme}://{at.bucket} were not read, which needs the package botocore"
        yield Finding(name, False, detail, f"pip install 'eos-spark[aws]', or {look}", fatal=False)
        return
    try:
        with _client(at) as client:
            rules = _read(at, lambda: client.get_bucket_lifecycle_configuration(Bucket=at.bucket)).get("Rules", [])
            yield from _harmful(at, name, rules)
            versions = _read(at, lambda: client.get_bucket_versioning(Bucket=at.bucket)).get("Status")
    except _UnreadError as error:
        detail = f"the rules and versions of {at.scheme}://{at.bucket} were not read: {error}"
        remedy = f"allow s3:GetLifecycleConfiguration and s3:GetBucketVersioning, or {look}"
        yield Finding(name, False, detail, remedy, fatal=False)
        return
    if versions == "Enabled":
        yield _versions(at, f"{check}: versions", rules)


def _harmful(at: ObjectAddress, name: str, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Return a finding for each rule that takes state away, or one that no rule does."""
    found = [(rule.get("ID") or f"number {number}", _harm(at, rule)) for number, rule in enumerate(rules, 1)]
    harmful = [(rule, harm) for rule, harm in found if harm]
    for rule, harm in harmful:
        remedy = f"let the rule leave out {at.prefix}/ (by its filter), or give the pipeline a bucket without it"
        yield Finding(name, False, f"rule {rule} of s3://{at.bucket} {harm}: state of the pipeline is lost", remedy)
    if not harmful:
        yield Finding(name, True, f"no rule of s3://{at.bucket} deletes or archives objects below {at.prefix}/")


def _harm(at: ObjectAddress, rule: Rule) -> str:
    """Return how the rule harms the pipeline's objects; empty: it does not. They have no tags (object tagging)."""
    ours, (scope, has_tags) = f"{at.prefix}/", _filter(rule)
    if rule.get("Status") != "Enabled" or has_tags or not (ours.startswith(scope) or scope.startswith(ours)):
        return ""
    where = f"below {scope}" if scope else "in all of the bucket"
    expiration = rule.get("Expiration") or {}
    if "Days" in expiration:
        return f"deletes objects {where} after {expiration['Days']} days"
    if "Date" in expiration:
        return f"deletes objects {where} from {expiration['Date']:%Y-%m-%d} on"
    archives = {each.get("StorageClass") for each in rule.get("Transitions") or ()} & _ARCHIVES
    return f"moves objects {where} to {sorted(archives)[0]}, where they cannot be read" if archives else ""


def _versions(at: ObjectAddress, name: str, rules: Sequence[Rule]) -> Finding:
    """Return whether a rule deletes the versions that each replacement of head leaves behind."""
    for rule in rules:
        scope, has_tags = _filter(rule)
        applies = rule.get("Status") == "Enabled" and not has_tags and f"{at.prefix}/".startswith(scope)
        if applies and rule.get("NoncurrentVersionExpiration"):
            return Finding(name, True, "the bucket keeps old versions, and a rule deletes them")
    detail = f"s3://{at.bucket} keeps all old versions, and each checkpoint leaves some behind: their number only grows"
    remedy = f"add a lifecycle rule with NoncurrentVersionExpiration for {at.prefix}/"
    return Finding(name, False, detail, remedy, fatal=False)


def _filter(rule: Rule) -> tuple[str, bool]:
    """Return the prefix that a rule is for, and whether it is for objects with certain tags only."""
    given = rule.get("Filter") or {}
    inner = given.get("And") or given
    return inner.get("Prefix") or rule.get("Prefix") or "", bool(inner.get("Tag") or inner.get("Tags"))


def _read(at: ObjectAddress, call: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the answer; empty for a bucket without rules. Raises _UnreadError."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        answer: Mapping[str, Any] = call()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code == _NO_RULES:
            return {}
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
        raise _UnreadError(f"the store answered {status}, {code}") from error
    except (BotoCoreError, ResponseParserError, ValueError) as error:
        raise _UnreadError(at.mask(str(error).partition("\n")[0])) from error
    return answer


@cache
def _session() -> Any:
    """Kept: each new one reads megabytes that describe AWS's services."""
    from botocore.session import Session

    return Session()


@contextmanager
def _client(at: ObjectAddress) -> Iterator[Any]:
    """A client of the store where the address says it is, with its credentials or the machine's. Sends nothing."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    options = dict(at.options)
    is_virtual = options.get("virtual_hosted_style_request") == "true"
    config = Config(
        connect_timeout=_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
        retries={"total_max_attempts": 2},
        s3={"addressing_style": "virtual" if is_virtual else "path"},
        signature_version=UNSIGNED if options.get("skip_signature") == "true" else None,
    )
    with _certificates(options.get("root_certificate")) as verify:
        try:
            client = _session().create_client(
                "s3",
                region_name=at.region,
                endpoint_url=at.endpoint.replace(f"://{at.bucket}.", "://", 1) if is_virtual else at.endpoint,
                verify=verify,
                aws_access_key_id=options.get("access_key_id"),
                aws_secret_access_key=options.get("secret_access_key"),
                aws_session_token=options.get("session_token"),
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise _UnreadError(at.mask(str(error).partition("\n")[0])) from error
        yield client


@contextmanager
def _certificates(text: str | None) -> Iterator[str | None]:
    """A file with these certificates; None: the system's are trusted."""
    if text is None:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name
