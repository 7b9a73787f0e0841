"""Credentials of AWS, and the tokens that they sign for logins by IAM.

Credentials are those of the machine and process that logs in (AWS's default chain: variables, files, the role of a
container or of the machine), of a profile, or named keys. Needs the packages of the extra `aws`, which are imported
only here and only by a login.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.extras import require
from eos.errors import SpecError

_RDS_LIFE_S: Final = 900
_MARK: Final = "aws_msk_iam"
_WORDS: Final = {"region": "region", "profile": "profile", "key": "access_key_id", "secret": "secret_access_key"}
"""Of an identity as text: `secret=` is masked wherever a message has it."""

_ATTEMPTS: Final = 3
"""At the metadata service of the machine. One of two seconds at most: it is on the machine itself, and may be busy."""

_OUTAGES: Final = (
    *("HTTPClientError", "ConnectionError", "MetadataRetrievalError", "CredentialRetrievalError"),
    "TokenRetrievalError",
)
"""Errors of botocore's after which another attempt may succeed: what gives credentials has failed."""

FIND: Final = (
    "give this process credentials of AWS (a role of the machine or container, variables, ~/.aws), or name a profile "
    "or keys in the login: docs/how-to/security.md"
)
"""The remedy where there are none."""


class AwsLoginError(Exception):
    """No token can be made. The message holds no secret."""

    def __init__(self, message: str, *, is_outage: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_outage = is_outage  # whether another attempt may succeed


@dataclass(frozen=True, slots=True)
class AwsIdentity:
    """Whose credentials sign, and for which region. Configuration only: picklable, holds no token."""

    region: str
    profile: str | None = None
    """Of the files in `~/.aws`, which may name a role to assume or a program to ask."""
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """As a setting of one line, which `of_text` reads. Contains the secret."""
        found = {word: getattr(self, name) for word, name in _WORDS.items()}
        return " ".join([_MARK, *(f"{word}={value}" for word, value in found.items() if value is not None)])

    @classmethod
    def of_text(cls, text: str) -> AwsIdentity | None:
        """None for a text of another kind. Raises SpecError, which does not repeat the text."""
        mark, *pairs = text.split() or [""]
        if mark != _MARK:
            return None
        words = dict(pair.partition("=")[::2] for pair in pairs)
        if unknown := sorted(words.keys() - _WORDS.keys()):
            raise SpecError(f"{_MARK} has no option {', '.join(unknown)}", remedy=f"it has {', '.join(_WORDS)}")
        if "region" not in words or ("key" in words) != ("secret" in words):
            message = f"{_MARK} needs a region, and a key and its secret together"
            raise SpecError(message, remedy=f"{_MARK} region=eu-west-1")
        return cls(**{_WORDS[word]: value for word, value in words.items()})


def msk_token(identity: AwsIdentity) -> tuple[str, float]:
    """Return a token for Amazon MSK, and the time at which it ends (seconds since 1970).

    Asks the source of the credentials where theirs end soon; signs without asking anybody. Raises AwsLoginError,
    SpecError.
    """
    require("aws")
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    credentials, end = _credentials(identity)
    token, token_end_ms = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
        identity.region, _provider(credentials)
    )
    return str(token), min(token_end_ms / 1000, end)


def rds_token(identity: AwsIdentity, host: str, port: int, user: str) -> str:
    """Return a password for a server of Amazon RDS or Aurora, good for 15 minutes: the same as AWS's own tools make.

    Asks the source of the credentials where theirs end soon; signs without asking anybody. Raises AwsLoginError,
    SpecError.
    """
    require("aws")
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    credentials, _ = _credentials(identity)
    scheme = "https://"
    request = AWSRequest("GET", f"{scheme}{host}:{port}/", params={"Action": "connect", "DBUser": user})
    SigV4QueryAuth(credentials, "rds-db", identity.region, expires=_RDS_LIFE_S).add_auth(request)
    return str(request.url).removeprefix(scheme)


def _credentials(identity: AwsIdentity) -> tuple[Any, float]:
    """Return credentials, and when they end; infinity for those that do not. Raises AwsLoginError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = _session(identity).get_credentials()
        if found is None:
            where = f"the profile {identity.profile}" if identity.profile else "variables, files and metadata services"
            raise AwsLoginError(f"{where} on {socket.gethostname()} give no credentials of AWS")
        frozen = found.get_frozen_credentials()
    except ClientError as error:
        told = error.response.get("Error", {})
        text = f"AWS gives no credentials: {told.get('Code')}: {told.get('Message')}"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise AwsLoginError(text, is_outage=status >= 500 or told.get("Code") == "Throttling") from None
    except (BotoCoreError, RuntimeError) as error:  # RuntimeError: what was fetched has ended already
        names = {each.__name__ for each in type(error).__mro__}
        text = f"no credentials of AWS on {socket.gethostname()}: {error}"
        raise AwsLoginError(text, is_outage=not names.isdisjoint(_OUTAGES)) from None
    # Of temporary ones; a token that they sign is refused as soon as they end, whatever it says.
    end = getattr(found, "_expiry_time", None)
    end_s = float("inf") if end is None else end.timestamp()
    if end_s <= time.time():
        raise AwsLoginError(f"the credentials of AWS on {socket.gethostname()} have ended", is_outage=True)
    return frozen, end_s


def _provider(credentials: Any) -> Any:
    """These credentials in the form that the signer for Kafka takes."""
    from botocore.credentials import CredentialProvider, Credentials

    class Given(CredentialProvider):  # type: ignore[misc]
        def load(self) -> Any:
            return Credentials(credentials.access_key, credentials.secret_key, credentials.token)

    return Given()


def _new_session(identity: AwsIdentity) -> Any:
    from botocore.session import Session

    session = Session(profile=identity.profile)
    session.set_config_variable("metadata_service_num_attempts", _ATTEMPTS)
    session.set_config_variable("metadata_service_timeout", 2)
    if identity.access_key_id is not None:
        session.set_credentials(identity.access_key_id, identity.secret_access_key)
    return session


_kept: Final[dict[AwsIdentity, Any]] = {}
"""Sessions of botocore's with temporary credentials, which they renew themselves. Their role keeps its session's name:
Kafka refuses a connection that logs in again under another one.

Lasting keys are read again for each token, so that keys that were replaced in a file or a mounted secret are found.
"""
_lock = threading.Lock()


def _session(identity: AwsIdentity) -> Any:
    """Raises BotoCoreError, ClientError."""
    with _lock:
        session = _kept.get(identity)
        if session is None:
            session = _new_session(identity)
            if hasattr(session.get_credentials(), "_expiry_time"):
                _kept[identity] = session
        return session


def forget_sessions() -> None:
    """Look for credentials anew. Also in a fork, which has no thread that would release a lock that it inherits."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=forget_sessions)
