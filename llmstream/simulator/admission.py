"""Request admission: API key, known paths."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.errors import AuthenticationError, InvalidRequest, NotFound
from llmstream.exchange import HttpRequest, carries_secret_parameter, redact_headers
from llmstream.server_side.local_only import is_loopback

__all__ = [
    "check_bind",
    "check_key",
    "is_known_path",
    "masked",
    "no_such_path",
    "usual_path",
]


# Where clients send a key besides Authorization: Anthropic's, Azure's, Google's.
_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
# The access key id of a request signed for AWS.
_AWS_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")


def check_bind(host: str, *, allow_remote: bool) -> None:
    """Checks the address to listen on.

    raises: InvalidRequest if other machines can reach it and allow_remote is off
    """
    if not allow_remote and not is_loopback(host):
        raise InvalidRequest(
            f"other machines could reach the simulator on {host!r}. Use 127.0.0.1, or pass allow_remote=True."
        )


def check_key(headers: Mapping[str, str], keys: Collection[str] | None) -> None:
    """Checks that any vendor's header has one of the keys; None accepts all requests.

    For a request signed for AWS, the key is the access key id; the signature is not checked.

    raises: AuthenticationError
    """
    if keys is None:
        return
    authorization = headers.get("authorization", "")
    scheme, _, token = authorization.partition(" ")
    given = [headers[name] for name in _KEY_HEADERS if headers.get(name)]
    if scheme.lower() == "bearer":
        given.append(token.strip())
    elif signed := _AWS_CREDENTIAL.match(authorization):
        given.append(signed[1])
    for one in given:
        # A header may have any bytes.
        sent = one.encode("utf-8", "surrogateescape")
        # Constant time: with allow_remote, others can reach the port and measure.
        if any(hmac.compare_digest(sent, key.encode()) for key in keys):
            return
    problem = "the API key is not valid" if given else "no API key was sent"
    raise AuthenticationError(
        f"{problem}. Send the key that the simulator was started with.",
        status=401,
        reason="invalid_api_key",
    )


def no_such_path(http: HttpRequest, usual: str | None) -> NotFound:
    """Returns the error for a path that no vendor has.

    usual: the likely path, or None
    """
    path = http.url.partition("?")[0]
    remedy = ""
    if usual:
        remedy = f" Did you mean {usual}? Check base_url, or turn strict_paths off (simulate --any-path)."
    return NotFound(f"Invalid URL ({http.method} {path}).{remedy}", status=404, reason=UNKNOWN_PATH)


def masked(http: HttpRequest) -> HttpRequest:
    """Returns the request without its secrets."""
    path, mark, query = http.url.partition("?")
    url = f"{path}{mark}{'&'.join(map(_masked_parameter, query.split('&')))}"
    return msgspec.structs.replace(http, url=url, headers=redact_headers(http.headers))


def _masked_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=***" if equals and carries_secret_parameter(unquote(name)) else parameter


# Prefixes of OpenAI's paths: of OpenAI, Azure and vendors with compatible APIs.
_OPENAI: Final = "|".join(
    (
        "/v1",
        "/(api|engines|inference|serverless|zen|compatible-mode|openai)/v1",
        # DeepInfra, Upstage.
        "/v1/(openai|solar)",
        # Google's compatible API.
        "/v1beta/openai",
        # Volcengine, Z.ai, Snowflake.
        "/api/(v3|paas/v4|v2/cortex/v1)",
        "/openai/deployments/[^/]+",
        # Cloudflare.
        "/client/v4/accounts/[^/]+/ai/v1",
        # Vertex AI.
        "/v1(beta1)?/projects/[^/]+/locations/[^/]+/endpoints/openapi",
        # Databricks.
        "/serving-endpoints",
    )
)

# Azure and MiniMax (/anthropic), Z.ai (/api/anthropic), Kimi (/coding), OpenCode (/zen).
_ANTHROPIC: Final = "(/(api/)?anthropic|/coding|/zen)?/v1"
_GOOGLE: Final = "/v1(beta|alpha|beta1)?(/projects/[^/]+/locations/[^/]+)?(/publishers/[^/]+)?"

_KNOWN: Final = re.compile(
    "|".join(
        (
            rf"({_OPENAI})/(chat/completions|responses(/.*)?|models(/[^/]+)?)",
            rf"{_ANTHROPIC}/(messages(/count_tokens)?|models(/[^/]+)?)",
            rf"{_GOOGLE}/((models|tunedModels|endpoints)(/[^/]+)?|interactions(/[^/]+)?)",
            "/model/[^/]+/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)",
            # Cohere.
            "/v2/chat|/v1/models(/[^/]+)?",
            # Ollama.
            "/api/(chat|show|tags|version)",
            "(/(upload|download))?(/v1(beta)?)?/(files|batches|messages/batches|batch/jobs)(/.*)?",
            "",
        )
    )
)

_USUAL: Final = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/MODEL:streamGenerateContent",
    "gemini-interactions": "/v1beta/interactions",
    "bedrock-converse": "/model/MODEL/converse-stream",
    "cohere": "/v2/chat",
    "mistral": "/mistral/v1/chat/completions",
    "ollama": "/api/chat",
}


def is_known_path(url: str) -> bool:
    """Whether some vendor has the path, with or without the name of a dialect before it."""
    path = url.partition("?")[0].rstrip("/")
    first, _, rest = path[1:].partition("/")
    return _KNOWN.fullmatch(f"/{rest}" if first in _USUAL else path) is not None


def usual_path(dialect: str) -> str | None:
    """Returns the path at which the simulator serves a dialect."""
    return _USUAL.get(dialect)
