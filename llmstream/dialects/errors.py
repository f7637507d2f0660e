"""Maps vendors' error responses, in all their shapes, to our typed errors.

Seen on the wire: `{error: {message, type, code, param}}`, `{error: "s"}`, `{message}`,
`{detail: "s" | [...]}`, `{code, error: "s"}`, `{code, message, type}`,
`{object: "error", message}`, `[{error}]`, HTML and plain text.
"""

from __future__ import annotations

import datetime
import email.utils
import logging
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from llmstream import errors
from llmstream.dialects.json_text import encodable_value, without_lone_surrogates

__all__ = [
    "UNKNOWN_PATH",
    "decoded_error",
    "error_from_value",
    "is_error_body",
    "is_json",
    "request_id",
    "retry_after_s",
    "vendor_error",
]

# The reason of a request to an unknown path, for which each vendor has its own message.
UNKNOWN_PATH: Final = "unknown-path"

_log: Final = logging.getLogger("llmstream")

# Shows an HTML page up to its title and heading; error bodies are up to 64 KiB.
_EXCERPT_CHARS: Final = 2048

# Longest message, as of an error response's body; an event of a stream may hold megabytes.
_MESSAGE_CHARS: Final = 64 * 1024

# Names have tens of characters, but some servers put text of the request into these fields.
_NAME_CHARS: Final = 8192
_REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
    "x-generation-id",
    "apim-request-id",
)

# Status by a word of the error, for errors inside a 200; 529 is Anthropic's.
_STATUS_OF_WORD: Final[tuple[tuple[str, int], ...]] = (
    # OpenAI's codes first: their messages may contain any of the others (openai-node 7.57).
    ("bio_policy", 400),
    ("cyber_policy", 400),
    ("misalignment_policy", 400),
    ("content_policy", 400),
    ("data_residency_mismatch", 400),
    ("slow_down", 429),
    ("rate_limit", 429),
    ("insufficient_quota", 429),
    ("throttling", 429),
    ("resource_exhausted", 429),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("billing", 402),
    ("permission", 403),
    ("not_found", 404),
    ("request_too_large", 413),
    ("capacity_exceeded", 429),
    ("overloaded_error", 529),
    ("overload", 503),
    ("unavailable", 503),
    ("timeout", 504),
    ("context_length", 400),
    ("exceed_context", 400),
    ("tool_use_failed", 400),
    ("content_filter", 400),
    ("invalid", 400),
    ("bad_request", 400),
)

# Z.ai's error codes, also inside a 200; source: docs.z.ai/api-reference/api-code, 2026-11.
_STATUS_OF_ZAI: Final[tuple[tuple[str, int], ...]] = (
    (r"100[0-4]", 401),
    (r"1113", 402),
    (r"1220", 403),
    (r"1211|1222", 404),
    (r"121[02-5]|1261|1301", 400),
    (r"130[2-58]", 429),
)

# Keys that responses have and errors do not.
_ANSWER_KEYS: Final = frozenset(
    {"choices", "content", "candidates", "output", "delta", "message_id", "steps"}
)

_CONTEXT_WORDS: Final = re.compile(
    r"context.{0,20}(length|window|size)|prompt is too long|too many (input )?tokens|"
    r"maximum.{0,30}tokens|input (is|length).{0,20}(too long|exceed)|exceeds? the (available )?context|"
    r"reduce the length|context_length|exceed_context|too_many_(prompt_)?tokens|input tokens exceeds",
    re.IGNORECASE | re.DOTALL,
)

# Codes of OpenAI's policy blocks. A retry is rejected again (openai-node 7.57).
_FILTER_WORDS: Final = re.compile(
    r"content[_ -]?(filter|policy)|(bio|cyber|misalignment)_policy|responsibleai|moderation", re.IGNORECASE
)

# OpenAI's code for an account whose request rate rose too fast, also with status 503.
_SLOW_DOWN: Final = "slow_down"

# Further fields of an error object, stored unchanged.
_DETAILS: Final = ("misalignment",)

# Error types that add nothing to the status.
_CLASS_TYPES: Final = re.compile(
    r"(invalid_request|authentication|permission|not_found|rate_limit|overloaded|timeout|server|api"
    r"|service_unavailable)?_?error"
)

_QUOTA_WORDS: Final = ("insufficient_quota", "billing", "credit", "balance", "spend_limit")
_KEY_WORDS: Final = re.compile(
    r"api[_ ]?key[_ ](in|not )?valid|incorrect api key|invalid api key", re.IGNORECASE
)
_PLAIN_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429})

# The longest number that is parsed as a status or a vendor's code.
_CODE_DIGITS: Final = 9
# What else answers with a web page in place of the API.
_PROXIES: Final = ", and whether a proxy, a firewall or a login page is on the way"


def vendor_error(
    status: int, headers: Mapping[str, str], body: bytes, *, provider: str
) -> errors.LLMStreamError:
    """Returns the error of a complete response.

    status:  of the response; below 400 if it is not the requested stream
    headers: names in lower case
    body:    any bytes; at most the first 64 KiB matter
    """
    text = body[: 64 * 1024].decode("utf-8", "replace")
    value = _parsed(text)
    if status < 400 and not _is_error(value):
        return errors.NotAStream(
            "the response is not an event stream "
            f"(content type {headers.get('content-type', 'not given')!r}). "
            f"Check base_url and the model's name{_PROXIES if _is_page(text) else ''}. "
            + (f"It begins: {text[:_EXCERPT_CHARS]!r}" if text else "Its body is empty."),
            provider=provider,
            status=status,
            request_id=request_id(headers),
        )
    if value is None:
        message = _plain(text) or f"HTTP {status} without a message"
        # A 5xx page is the usual answer of the vendor's own load balancer.
        if status < 500 and _is_page(text):
            message = (
                f"{message.rstrip('.')}. This is a web page, not the API's error: check base_url{_PROXIES}."
            )
        value = {"message": message}
    return error_from_value(
        value, provider=provider, status=status if status >= 400 else None, headers=headers
    )


def decoded_error(
    decode: Callable[[int, dict[str, str], bytes], errors.LLMStreamError],
    status: int,
    headers: dict[str, str],
    body: bytes,
    *,
    provider: str,
) -> errors.LLMStreamError:
    """Returns the error that `decode` returns for a response; if `decode` itself fails, the error of the
    status.

    A body may hold anything, and an application may define the dialect. Whatever fails in them, the caller
    gets a typed error.
    """
    try:
        found = decode(status, headers, body)
        if isinstance(found, errors.LLMStreamError):
            return found
        kind = f"{type(found).__name__} in place of an error"
    except errors.LLMStreamError as error:
        return error
    except Exception as error:
        # Only the type: the message and the frames may contain content of the body.
        kind = type(error).__name__
    _log.error("%s: the body of an HTTP %d response could not be decoded (%s)", provider, status, kind)
    message = (
        f"HTTP {status}, with a body that could not be decoded ({kind}). "
        "This is a bug in llmstream; please report it."
    )
    if status < 400:
        return errors.DecodeError(message, provider=provider, status=status)
    return error_from_value({"message": message}, provider=provider, status=status, headers=headers)


def is_error_body(body: bytes) -> bool:
    """Whether a body is a JSON error object, whatever its status."""
    return _is_error(_parsed(body.decode("utf-8", "replace")))


def is_json(body: bytes) -> bool:
    """Whether a body is one JSON object or list."""
    return isinstance(_parsed(body.decode("utf-8", "replace")), dict | list)


def error_from_value(
    value: object, *, provider: str, status: int | None = None, headers: Mapping[str, str] = {}
) -> errors.ProviderError:
    """Returns the error of a vendor's error object, in any shape.

    status: of HTTP; None for an error inside a 200, whose status is derived from the object
    """
    fields = _ErrorFields.read(value)
    fields.bound()
    number = status or fields.status or _status_inside(fields, provider)
    wait = retry_after_s(headers)
    if wait is None:
        wait = fields.retry_after_s
    kind = _class_of(number, fields)
    retryable = kind.default_retryable or number in _RETRYABLE_STATUS or number >= 500
    reason = fields.error_code or fields.reason
    # A 429 like a rate limit, but waiting does not help: the account has no credit.
    if any(word in (reason or "").lower() for word in _QUOTA_WORDS):
        retryable = False
    # OpenAI and Anthropic decide for their clients; the header overrides the status.
    should_retry = headers.get("x-should-retry", "").lower()
    if should_retry in ("true", "false"):
        retryable = should_retry == "true"
    return kind(
        fields.message or f"HTTP {number} without a message",
        provider=provider,
        status=number,
        retryable=retryable,
        retry_after_s=wait,
        request_id=request_id(headers) or fields.request_id,
        reason=reason,
        param=fields.param,
        details=fields.details or None,
    )


def retry_after_s(
    headers: Mapping[str, str], *, now: Callable[[], datetime.datetime] | None = None
) -> float | None:
    """Returns how many seconds to wait: from `retry-after-ms`, or `retry-after` as a number or a date.

    None without such a header, or with an invalid value (negative, nan, inf, garbage).
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        wait = float(text) * scale if _PLAIN_NUMBER.fullmatch(text) else math.inf
        if math.isfinite(wait):
            return wait
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError, IndexError, TypeError):  # the last two of odd dates, by version
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.UTC)
    today = now() if now is not None else datetime.datetime.now(datetime.UTC)
    return max(0.0, (date - today).total_seconds())


class _ErrorFields(msgspec.Struct):
    """The fields of an error object, collected from any shape."""

    message: str = ""
    reason: str | None = None
    error_code: str | None = None
    text: str = ""
    status: int | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    param: str | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, value: object) -> _ErrorFields:
        fields = cls()
        fields._take(value, depth=0)
        return fields

    def bound(self) -> None:
        """Cuts texts of excessive length, because an error is shown, logged and pickled."""
        self.message = _cut(self.message, _MESSAGE_CHARS)
        self.text = self.text[:_MESSAGE_CHARS]
        self.reason = self.reason and _cut(self.reason, _NAME_CHARS)
        self.error_code = self.error_code and _cut(self.error_code, _NAME_CHARS)
        self.request_id = self.request_id and _cut(self.request_id, _NAME_CHARS)
        self.param = self.param and _cut(self.param, _NAME_CHARS)
        self.details = {
            name: value if len(text := str(value)) <= _MESSAGE_CHARS else _cut(text, _MESSAGE_CHARS)
            for name, value in self.details.items()
        }

    def _take(self, value: object, depth: int) -> None:
        if isinstance(value, list) and value and depth < 4:
            self._take(value[0], depth + 1)
        elif isinstance(value, str):
            self.message = self.message or without_lone_surrogates(value)
        elif isinstance(value, dict) and depth < 4:
            self._take_dict(value, depth)

    def _take_dict(self, value: dict[str, Any], depth: int) -> None:
        for key in ("error", "errors"):
            if value.get(key):
                self._take(value[key], depth + 1)
        place, text = value.get("loc"), value.get("msg")
        # FastAPI: the place is "body", then the names of the fields.
        if isinstance(place, list) and place[1:] and isinstance(text, str):
            self._take(f"{'.'.join(map(str, place[1:]))}: {text}", depth + 1)
        for key in ("message", "msg", "detail", "error_description"):
            self._take(value.get(key), depth + 1)
        for key in ("code", "type", "status", "error_type", "reason"):
            self._take_code(key, value.get(key))
        for key in ("status_code", "status", "http_status"):
            if isinstance(value.get(key), int) and 400 <= value[key] < 600:
                self.status = self.status or value[key]
        if isinstance(value.get("request_id"), str):
            self.request_id = self.request_id or without_lone_surrogates(value["request_id"])
        if isinstance(value.get("param"), str) and value["param"]:
            self.param = self.param or without_lone_surrogates(value["param"])
        self._take_details(value)
        details = value.get("details")
        for detail in details if isinstance(details, list) else ():
            self._take_detail(detail)
        if isinstance(details, dict):
            self._take_error_code(details)
        # Groq, with `tool_use_failed`.
        failed = value.get("failed_generation")
        if isinstance(failed, str) and failed not in self.message:
            self.message += f" The model had written: {failed}"
        # OpenRouter has the upstream vendor's error here.
        raw = (value.get("metadata") or {}).get("raw") if isinstance(value.get("metadata"), dict) else None
        if isinstance(raw, str) and raw and raw not in self.message:
            self.message += f" ({raw})"

    def _take_code(self, key: str, code: object) -> None:
        # More digits than a status has are a reason; `int` refuses more than 4300 of them.
        if isinstance(code, str) and len(code) <= _CODE_DIGITS and code.isdecimal():
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool):
            if 400 <= code < 600:
                self.status = self.status or code
            else:
                self.reason = self.reason or str(code)
        elif isinstance(code, str) and code and code != "error":
            self.reason = self.reason or without_lone_surrogates(code)
            self.text += f"{code} "

    def _take_details(self, value: dict[str, Any]) -> None:
        """Stores further fields, and the type if it adds to status and code."""
        for name in _DETAILS:
            if value.get(name):
                self.details.setdefault(name, encodable_value(value[name]))
        kind = value.get("type")
        if isinstance(kind, str) and kind != self.reason and not _CLASS_TYPES.fullmatch(kind):
            self.details.setdefault("type", without_lone_surrogates(kind))

    def _take_error_code(self, details: dict[str, Any]) -> None:
        """Reads Anthropic's details: a code more specific than the error's type, and its subject.

        The type still decides the class of the error. source: anthropic 2.12.0, `ErrorDetails`
        """
        code = details.get("error_code")
        if not isinstance(code, str) or not code:
            return
        self.error_code = self.error_code or without_lone_surrogates(code)
        rest = [f"{key}: {value}" for key, value in details.items() if key != "error_code" and value]
        if rest:
            self.message = f"{self.message} ({without_lone_surrogates(', '.join(rest))})".lstrip()

    def _take_detail(self, detail: object) -> None:
        """Reads Google's details: ErrorInfo with a reason, RetryInfo with a delay such as "37s"."""
        if not isinstance(detail, dict):
            return
        if isinstance(detail.get("reason"), str):
            self.reason = detail["reason"]
        delay = detail.get("retryDelay")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", delay) if isinstance(delay, str) else None
        if match and math.isfinite(wait := float(match.group(1))):
            self.retry_after_s = wait


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def _parsed(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _is_error(value: object) -> bool:
    # Google sends `[{"error": ...}]`.
    if isinstance(value, list):
        return bool(value) and _is_error(value[0])
    if not isinstance(value, dict):
        return False
    if value.get("error") or value.get("type") == "error" or value.get("object") == "error":
        return True
    message = value.get("message") or value.get("detail")
    return isinstance(message, (str, list)) and bool(message) and _ANSWER_KEYS.isdisjoint(value)


def _status_inside(fields: _ErrorFields, provider: str) -> int:
    if provider == "zai":
        for numbers, status in _STATUS_OF_ZAI:
            if re.fullmatch(numbers, fields.reason or ""):
                return status
    return _status_of(f"{fields.text}{fields.reason} {fields.message}")


def _status_of(text: str) -> int:
    lower = text.lower()
    return next((status for word, status in _STATUS_OF_WORD if word in lower), 500)


def _class_of(status: int, fields: _ErrorFields) -> type[errors.ProviderError]:
    text = f"{fields.reason or ''} {fields.message}"
    if fields.reason == _SLOW_DOWN and status in (429, 503):
        return errors.RateLimited
    # A policy block, although the status is that of a missing permission.
    if status == 403 and _FILTER_WORDS.search(fields.reason or ""):
        return errors.ContentFiltered
    if status in (400, 413, 422):
        if _CONTEXT_WORDS.search(text):
            return errors.ContextTooLong
        if _FILTER_WORDS.search(fields.reason or ""):
            return errors.ContentFiltered
        # Google and xAI answer a wrong key with 400.
        if _KEY_WORDS.search(text):
            return errors.AuthenticationError
        return errors.BadRequest
    by_status: dict[int, type[errors.ProviderError]] = {
        401: errors.AuthenticationError,
        498: errors.AuthenticationError,
        402: errors.PermissionDenied,
        403: errors.PermissionDenied,
        404: errors.NotFound,
        429: errors.RateLimited,
        503: errors.Overloaded,
        529: errors.Overloaded,
    }
    if status in by_status:
        return by_status[status]
    return errors.ServerError if status >= 500 or status in _RETRYABLE_STATUS else errors.BadRequest


def request_id(headers: Mapping[str, str]) -> str | None:
    """Returns the vendor's id of the exchange, for its support team; None if there is none."""
    for name in _REQUEST_ID_HEADERS:
        if value := headers.get(name):
            return value
    return None


def _is_page(text: str) -> bool:
    return text[:_EXCERPT_CHARS].lstrip().lower().startswith(("<!doctype html", "<html"))


def _plain(text: str) -> str:
    # No character class matches the start of the next match, so a page of "<" or of unclosed titles is
    # scanned once.
    title = re.search(r"<title[^<>]*>([^<]*)</title>", text, re.IGNORECASE)
    text = (title and title.group(1)) or re.sub(r"<[^<>]*>", " ", text)
    return " ".join(text.split())[:_EXCERPT_CHARS]
