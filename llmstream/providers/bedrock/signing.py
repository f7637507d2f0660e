"""AWS Signature Version 4, by botocore, which the extra `bedrock` installs.

The path is encoded once on the wire and a second time in what is signed; the model's id in it holds
colons, so a client that quotes it differently is refused.
source: "Create a signed AWS API request" in the IAM user guide
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

from llmstream.environment import is_own
from llmstream.errors import MissingKey, Unsupported
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Sign
from llmstream.providers.bedrock.clock import CLOCK, Clock, address_of
from llmstream.providers.bedrock.region import region_of, service_of

__all__ = ["credentials_of", "sign", "sign_for_bedrock", "signing_for"]

_SERVICE: Final = "bedrock"
_KEY: Final = "AWS_BEARER_TOKEN_BEDROCK"
_VARIABLES: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"

# Beside `x-amz-...`; other headers may change on their way.
_SIGNED: Final = frozenset({"content-type", "host"})


def signing_for(service: str, *, key: str = _KEY) -> Sign:
    """A `Provider.sign`: with the usual AWS credentials, for region and service that the address names.

    service: where the address names none, as behind a proxy
    key:     the variable that would make signing needless, for errors
    raises (the result): MissingKey, Unsupported, InvalidRequest
    """

    def signed(http: HttpRequest, env: Mapping[str, str]) -> HttpRequest:
        region = region_of(http.url, env)
        return sign(http, region=region, service=service_of(http.url) or service, env=env, key=key)

    return signed


sign_for_bedrock: Final = signing_for(_SERVICE)


def sign(
    http: HttpRequest,
    *,
    region: str,
    service: str = _SERVICE,
    env: Mapping[str, str] = os.environ,
    credentials: Any = None,
    clock: Clock = CLOCK,
    key: str = _KEY,
) -> HttpRequest:
    """The same request with `authorization` and `x-amz-...` headers; valid for minutes, so sign each attempt.

    credentials: of botocore; found by `credentials_of` where none are given
    clock: returns the time of the signature
    key: the variable that would make signing needless, for errors
    raises: MissingKey without credentials, Unsupported without botocore
    """
    auth, awsrequest = _botocore("auth", key), _botocore("awsrequest", key)
    credentials = credentials or credentials_of(env, key)
    headers = {
        name: value
        for name, value in http.headers.items()
        if name.lower() in _SIGNED or name.lower().startswith("x-amz-")
    }
    request = awsrequest.AWSRequest(method=http.method, url=http.url, data=http.body, headers=headers)
    _signer(auth, clock, address_of(http.url))(credentials, service, region).add_auth(request)
    signed = {name.lower(): value for name, value in request.headers.items()}
    return HttpRequest(http.url, http.body, {**http.headers, **signed}, http.method)


def _signer(auth: Any, clock: Clock, address: str) -> Any:
    """botocore's class, which takes this machine's time; where that is off, one that takes the clock's."""
    if not clock.offset_at(address):
        return auth.SigV4Auth

    class AtTimeOf(auth.SigV4Auth):  # type: ignore[misc]
        def _modify_request_before_signing(self, request: Any) -> None:
            request.context["timestamp"] = clock.now(address).strftime(auth.SIGV4_TIMESTAMP)
            super()._modify_request_before_signing(request)

    return AtTimeOf


def credentials_of(env: Mapping[str, str], key: str = _KEY) -> Any:
    """Frozen credentials of botocore: from the variables, else from wherever botocore finds them.

    A mapping other than the process's own environment is the only source: no files are read then.

    raises: MissingKey, Unsupported
    """
    credentials, missing = _botocore("credentials", key), f"Set {key}, {_VARIABLES}."
    access, secret = env.get("AWS_ACCESS_KEY_ID", "").strip(), env.get("AWS_SECRET_ACCESS_KEY", "").strip()
    if access and secret:
        token = env.get("AWS_SESSION_TOKEN", "").strip() or None
        return credentials.ReadOnlyCredentials(access, secret, token)
    if not is_own(env):
        raise MissingKey(f"No AWS credentials. {missing}")
    try:
        found = _session_credentials(env.get("AWS_PROFILE"))
        frozen = None if found is None else found.get_frozen_credentials()
    except _botocore("exceptions").BotoCoreError as error:
        raise MissingKey(f"No AWS credentials: {error} {missing}") from error
    if frozen is None or not frozen.access_key:
        raise MissingKey(f"No AWS credentials. {missing}")
    return frozen


# One object for each profile: it renews its credentials itself.
@functools.lru_cache(maxsize=8)
def _session_credentials(profile: str | None) -> Any:
    """What botocore finds in files, processes and the machine's role; it renews them itself."""
    return _botocore("session").Session(profile=profile).get_credentials()


def _botocore(module: str, key: str = _KEY) -> Any:
    try:
        return importlib.import_module(f"botocore.{module}")
    except ImportError:
        raise Unsupported(
            "Signing with AWS credentials needs botocore: pip install 'llmstream-sdk[bedrock]'. "
            f"A key in {key}, or api_key=, works without it."
        ) from None
