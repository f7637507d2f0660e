"""Request admission: API key, known paths, rate limits."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.errors import AuthenticationError, InvalidRequest, NotFound, RateLimited
from llmstream.exchange import HttpRequest, carries_secret_parameter, redact_headers
from llmstream.request import Request
from llmstream.server_side.local_only import is_loopback

__all__ = ["VendorLimits", "check_bind", "check_key", "is_known_path", "masked", "no_such_path", "usual_path"]

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
    if path in _USUAL.values():
        return True
    first, _, rest = path[1:].partition("/")
    return _KNOWN.fullmatch(f"/{rest}" if first in _USUAL else path) is not None


def usual_path(dialect: str) -> str | None:
    """Returns the path at which the simulator serves a dialect."""
    return _USUAL.get(dialect)


# Rate limits that the simulator enforces as vendors do: token buckets over all of its clients.


# OpenAI admits a request by an estimate from its length; it counts tokens later.
_BYTES_PER_TOKEN: Final = 4


class VendorLimits:
    """Limits of an account. A request counts when it arrives: a refused one takes nothing.

    requests_per_minute, tokens_per_minute: buckets of this size that refill steadily, full at first.
              A request has a quarter of its bytes and `max_output_tokens` as tokens
    with_headers: whether responses have `x-ratelimit-*` headers
    clock:    seconds, for tests

    admitted, refused: how many requests so far
    taken:    what those that were admitted took, "requests" and "tokens"
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        with_headers: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._sizes = {kind: float(size) for kind, size in given.items() if size is not None}
        self._levels = dict(self._sizes)
        self._with_headers = with_headers
        self._clock = clock
        self._filled = clock()
        self.admitted = self.refused = 0
        self.taken = dict.fromkeys(self._sizes, 0.0)

    def admit(self, http: HttpRequest, request: Request) -> None:
        """Takes a request's cost.

        raises: RateLimited with the time until the buckets have enough
        """
        now = self._clock()
        for kind, size in self._sizes.items():
            self._levels[kind] = min(size, self._levels[kind] + (now - self._filled) * size / 60)
        self._filled = now
        tokens = len(http.body) / _BYTES_PER_TOKEN + (request.settings.max_output_tokens or 0)
        costs = {"requests": 1.0, "tokens": tokens}
        waits = [((costs[kind] - self._levels[kind]) * 60 / size, kind) for kind, size in self._sizes.items()]
        wait_s, scarce = max(waits, default=(0.0, ""))
        if wait_s > 0:
            self.refused += 1
            raise RateLimited(
                f"Rate limit reached: limit {self._sizes[scarce]:g} {scarce} a minute, "
                f"{max(0.0, self._levels[scarce]):.0f} left, this request needs {costs[scarce]:.0f}.",
                provider="simulator",
                status=429,
                reason="rate_limit_exceeded",
                retry_after_s=round(wait_s, 3),
            )
        self.admitted += 1
        for kind in self._sizes:
            self._levels[kind] -= costs[kind]
            self.taken[kind] += costs[kind]

    def empty(self) -> None:
        """Takes all that is left now, as if others had used it."""
        self._levels = dict.fromkeys(self._sizes, 0.0)
        self._filled = self._clock()

    def headers(self) -> dict[str, str]:
        """The state of the buckets, as OpenAI writes it; {} without `with_headers`."""
        found = {}
        for kind, size in self._sizes.items() if self._with_headers else ():
            level = self._levels[kind]
            found[f"x-ratelimit-limit-{kind}"] = f"{size:g}"
            found[f"x-ratelimit-remaining-{kind}"] = str(int(max(0.0, level)))
            found[f"x-ratelimit-reset-{kind}"] = f"{(size - level) * 60 / size:.3f}s"
        return found
