"""Which of the client's errors are brokers' refusals, and what to do about each. Pure."""

from __future__ import annotations

import re
from typing import Final

from confluent_kafka import KafkaError

from connectors.aws import FIND

RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_LOGIN: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_ALERT: Final = re.compile(r"SSL alert number (4[0-9]|70|112|116)\b")  # RFC 8446, 6.2: about certificates, or the offer
_CUT: Final = re.compile(r"Local: (Broker transport failure|Timed out)|Request timed out|Disconnected")
"""In the words for a login that was not answered: brokers that are just going down or coming up."""

_PASSING: Final = re.compile(r"Too many connects|Cannot change principals")
"""In the words of brokers for logins that the next connection may repeat: Amazon MSK takes so many a second; and a
connection keeps who it is, while a role's new credentials may have another session's name."""

NO_TOKEN: Final = "Failed to acquire SASL OAUTHBEARER token"
NO_AWS_TOKEN: Final = "no token for AWS IAM"
"""In our own words for a token that cannot be signed, until credentials are given or put right."""

_REFUSED_TOKEN: Final = re.compile(r"certificate|trust anchors|\"error\"|unexpired token")
"""In the words for a token that was not given, or cannot be used: anything else is an outage of the token endpoint."""

_GRANT: Final = "grant the rights to the principal of this client: docs/how-to/security.md has the commands"
_LOG_IN: Final = (
    "correct security.sasl: username, password, and a mechanism that the listener has and the user is known to"
)
_GET_TOKEN: Final = (
    "correct security.sasl: token_url, client_id, client_secret, scope; token_ca for the authority of the certificate "
    "there; and see that the clock is right"
)
_TAKE_TOKEN: Final = (
    "see that the brokers know the identity provider of security.sasl, and which audience and scope they ask for"
)
_AWS_LOGIN: Final = (
    "allow this identity of AWS kafka-cluster:Connect on the cluster (docs/how-to/security.md has a policy); see that "
    "security.sasl.region is the cluster's, and that the clock is right"
)
_AWS_RIGHTS: Final = "allow this identity of AWS the actions that it lacks: docs/how-to/security.md has a policy"
_OWN_CERTIFICATE: Final = (
    "the brokers do not take this client's certificate, or ask for one: give security.tls.certificate and key, of an "
    "authority that they know"
)
_TRUST: Final = "give the authority of the brokers' certificates as security.tls.ca"


def is_refusal(error: KafkaError) -> bool:
    """Whether the brokers will refuse this client again; False for an outage, and for what waiting may cure."""
    text = error.str()
    if _ALERT.search(text) or NO_AWS_TOKEN in text:
        return True
    if _PASSING.search(text):
        return False
    if NO_TOKEN in text:
        return _REFUSED_TOKEN.search(text) is not None
    return error.code() in RIGHTS or (error.code() in {*_LOGIN, KafkaError._SSL} and not _CUT.search(text))


def remedy_of(error: KafkaError, aws: object | None = None) -> str:
    """What to do about a refusal. `aws`: not None for a login by AWS IAM."""
    if NO_AWS_TOKEN in error.str():
        return FIND
    if error.code() in RIGHTS:
        return _GRANT if aws is None else _AWS_RIGHTS
    if aws is not None and error.code() in _LOGIN:
        return _AWS_LOGIN
    if NO_TOKEN in error.str():
        return _GET_TOKEN
    if error.code() in _LOGIN:
        return _TAKE_TOKEN if "invalid_token" in error.str() else _LOG_IN
    return _OWN_CERTIFICATE if _ALERT.search(error.str()) else _TRUST
