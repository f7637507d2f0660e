"""What Google's two APIs share: errors, settings, sources, and long responses in several parts.

source: google.rpc.Code and google.rpc.RetryInfo; "Troubleshooting" in the documents of the Gemini API
"""

from __future__ import annotations

import mimetypes
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Place
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.dialects.model_facts import ModelFacts
from llmstream.dialects.requests import NONE_REFUSED, options_of
from llmstream.errors import ProviderError
from llmstream.events import Metadata, OtherWarning, Source, UnsupportedSetting, Usage, Warning
from llmstream.model_rules import nearest_effort
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import ReasoningOptions, Request

__all__ = [
    "KEY",
    "SIDE_FIELDS",
    "STATUS_OF_WORD",
    "STATUS_WORDS",
    "TRANSCRIPTION",
    "Responses",
    "Sources",
    "document_uri",
    "facts_of",
    "failure",
    "refused_settings",
    "thinking_budget",
    "thinking_level",
    "wants_continuation",
    "with_options",
    "without_option",
]

# The key of all metadata of these dialects, also on Vertex AI: a conversation may move between them.
KEY: Final = "google"

# Our metadata's name of a recording's transcript.
TRANSCRIPTION: Final = "audio_transcription"

# Fields that a part of generateContent may have beside its content, by their names in our metadata.
SIDE_FIELDS: Final = (
    "thought_signature",
    "part_metadata",
    "speech_metadata",
    "video_metadata",
    "audio_metadata",
    "document_metadata",
    "spreadsheet_metadata",
    "media_resolution",
    "media_processing",
)


STATUS_WORDS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
STATUS_OF_WORD: Final = {word: status for status, word in STATUS_WORDS.items()} | {
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "ALREADY_EXISTS": 409,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
}

# Names by number; source: google.rpc.Code.
_WORD_OF_NUMBER: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)

# Codes of the Interactions API outside google.rpc; source: ai.google.dev api-errors, 2026-11.
_STATUS_OF_KIND: Final = {
    "invalid_request": 400,
    "parameter_unknown": 400,
    "authentication": 401,
    "payment_required": 402,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "quota_exceeded": 429,
}

# Errors that a retry cannot resolve, whatever their status: the quota is per day.
_NOT_RETRYABLE: Final = frozenset({"UNIMPLEMENTED", "quota_exceeded"})


def failure(detail: object, *, provider: str) -> ProviderError:
    """Returns the error that ended an interaction or one of its steps.

    detail: `{code, message, details}`; the code is a number of google.rpc or of HTTP, a name, or a URI
            that ends in one
    """
    code = detail.get("code") if isinstance(detail, dict) else None
    word = code.rstrip("/").rpartition("/")[2] if isinstance(code, str) else ""
    if isinstance(detail, dict) and isinstance(code, int) and 0 < code < len(_WORD_OF_NUMBER):
        word = _WORD_OF_NUMBER[code]
        detail = {**detail, "code": word}
    status = STATUS_OF_WORD.get(word.upper()) or _STATUS_OF_KIND.get(word.lower())
    error = error_from_value({"error": detail}, provider=provider, status=status)
    if word in _NOT_RETRYABLE:
        error.retryable = False
    return error


# Settings of Google's models: reasoning, and which sampling settings have an effect.

_BUDGETS: Final = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}


def thinking_budget(reasoning: ReasoningOptions, rules: GeminiRules, warnings: list[Warning]) -> int | None:
    """Returns the budget for a model that takes one, in tokens; 0 switches thinking off."""
    budget = reasoning.budget_tokens
    if budget is not None and reasoning.effort is not None:
        words = "this model takes a budget, which was sent"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    if budget is not None and budget > rules.max_budget:
        warnings.append(OtherWarning(f"the reasoning budget of {budget} tokens became {rules.max_budget}"))
        return rules.max_budget
    if budget is not None:
        return budget
    if reasoning.effort is None:
        return None
    if reasoning.effort != "none":
        if reasoning.effort == "xhigh":
            words = f"the effort xhigh became the largest budget of {rules.max_budget} tokens"
            warnings.append(OtherWarning(words))
        return _BUDGETS.get(reasoning.effort, rules.max_budget)
    if rules.always_thinks:
        warnings.append(
            UnsupportedSetting("reasoning.effort", "this model always thinks; it gets 128 tokens")
        )
        return 128
    return 0


def thinking_level(reasoning: ReasoningOptions, rules: GeminiRules, warnings: list[Warning]) -> str | None:
    """Returns the nearest level for a model that takes one."""
    effort = reasoning.effort
    if effort is None:
        return None
    level = nearest_effort(effort, rules.levels)
    if effort == "none":
        words = f"this model always thinks; its level became {level}"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    elif level != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {level}: this model does not support it"))
    return level


_SAMPLING: Final = ("temperature", "top_p", "top_k")
_PENALTIES: Final = ("presence_penalty", "frequency_penalty")


def refused_settings(rules: GeminiRules) -> Mapping[str, str]:
    """Returns the settings that are not sent to the model, with the reason."""
    if rules.sampling and rules.penalties:
        return NONE_REFUSED
    reasons: dict[str, str] = {}
    if not rules.sampling:
        reasons |= dict.fromkeys(_SAMPLING, "this model ignores it")
    if not rules.penalties:
        reasons |= dict.fromkeys(_PENALTIES, "this model does not support it")
    return reasons


def facts_of(model: str) -> ModelFacts:
    """Returns what is known about a model from its name."""
    rules = GEMINI.find(model)
    off = () if rules.always_thinks else ("none",)
    return ModelFacts(
        reasoning=rules.thinking != "none",
        efforts=(*off, *rules.levels) if rules.thinking == "level" else (),
        context_tokens=rules.context_tokens,
        max_output_tokens=rules.max_output_tokens,
    )


# Sources: the pages and documents that a response cites, each once.

# Memory of a pair in a CPython set.
_PLACE_BYTES: Final = 160
_OCTETS: Final = "application/octet-stream"


def document_uri(source: Source) -> str:
    """Returns the path or name of a document."""
    detail = (source.provider_metadata or {}).get(KEY, {})
    named = next((detail[key] for key in ("uri", "document_uri") if isinstance(detail.get(key), str)), None)
    return named or source.filename or source.title or source.id


class Sources:
    """Creates one source for each page and document.

    new_id: returns the id of the next source
    hold:   called with the memory that each takes, in bytes
    """

    def __init__(self, new_id: Callable[[], str], hold: Callable[[int], None] = lambda size: None) -> None:
        self._new_id = new_id
        self._hold = hold
        self._seen: set[tuple[str, str]] = set()

    def page(self, url: object, title: object = None, metadata: Metadata | None = None) -> Iterator[Source]:
        """Yields the source of a page, if it is new and has a URL."""
        if _text(url) and self._is_new("url", str(url)):
            yield Source("url", self._new_id(), _text(url), _text(title), provider_metadata=metadata)

    def document(
        self, name: object, title: object = None, metadata: Metadata | None = None
    ) -> Iterator[Source]:
        """Yields the source of a document by its path or name; one with a web URL is a page."""
        path = _text(name)
        if path is None:
            return
        if path.startswith(("http://", "https://")):
            yield from self.page(path, title, metadata)
            return
        filename = path.rstrip("/").rpartition("/")[2] or path
        if self._is_new("document", f"{path}\n{_text(title) or ''}"):
            media_type = mimetypes.guess_type(filename)[0] or _OCTETS
            if metadata is None and path != filename:
                metadata = {KEY: {"uri": path}}
            yield Source("document", self._new_id(), None, _text(title), media_type, filename, metadata)

    def _is_new(self, kind: str, key: str) -> bool:
        if (kind, key) in self._seen:
            return False
        self._seen.add((kind, key))
        self._hold(sys.getsizeof(key) + _PLACE_BYTES)
        return True


def _text(value: Any) -> str | None:
    return without_lone_surrogates(value) if isinstance(value, str) and value else None


# Long responses, which come in several parts.
#
# Gemini 4 writes at most 65,536 tokens in one part. A longer response is cut off and ends with a token;
# the next request sends the token and gets the next part.
# source: google-genai 3.4.0, `_extra_utils.StreamContinuation` and `_interactions_continuation`

# The provider option that switches it off, under google-genai's name. It is not sent to the vendor.
OPTION: Final = "automatic_continuation"


class Responses:
    """The parts of one response: their number, their usage, and where the next one begins.

    last:   the latest place from the vendor
    content_followed: content arrived after it; a part that continues from there would repeat it
    count:  of the parts after the first
    """

    def __init__(self) -> None:
        self.last: Place | None = None
        self.content_followed = False
        self.count = 0
        self._last_returned: Place | None = None
        self._usages: list[Usage] = []

    @property
    def next(self) -> Place | None:
        """Returns the place exactly after the content so far; None if there is none."""
        return None if self.content_followed else self.last

    def place(self, token: Any, response_id: str | None = None) -> None:
        """Stores the vendor's token, unless it is not a string."""
        if isinstance(token, str) and token:
            self.last = Place(token, response_id)
            self.content_followed = False

    def forget(self) -> None:
        """Drops the place: the response ended for a reason other than its length."""
        self.last = None

    def next_body(self, usage: Usage) -> None:
        """Begins the next part. A part that is requested again is counted once.

        usage: of the part that ended
        """
        if self.last != self._last_returned:
            self._last_returned = self.last
            self.count += 1
        if usage != Usage():
            self._usages.append(usage)

    def usage(self, current: Usage) -> Usage:
        """Returns the sum over all parts. Google bills each with the full prompt.

        With several parts, `raw` is a list of the vendor's objects, one for each request.
        """
        if not self._usages:
            return current
        parts = [*self._usages, current] if current != Usage() else self._usages
        total = sum(parts[1:], parts[0])
        return msgspec.structs.replace(total, raw=[part.raw for part in parts])

    def metadata(self) -> dict[str, Any]:
        """Returns metadata for the finish; empty for a response of one part."""
        detail: dict[str, Any] = {"continuations": self.count} if self.count else {}
        return detail | ({"continuation_token": self.last.token} if self.last is not None else {})


def wants_continuation(request: Request, key: str, provider: str) -> bool:
    """Whether long responses are continued; True unless the option is False."""
    return options_of(request, key, provider).get(OPTION) is not False


def without_option(request: Request, key: str, provider: str) -> Request:
    """Returns the request without the option, which is not sent to the vendor."""
    given = request.provider_options
    if not any(OPTION in given.get(name, {}) for name in (key, provider)):
        return request
    cleaned = {
        name: {k: v for k, v in options.items() if k != OPTION} if name in (key, provider) else options
        for name, options in given.items()
    }
    return msgspec.structs.replace(request, provider_options=cleaned)


def with_options(request: Request, provider: str, options: dict[str, Any]) -> Request:
    """Returns the request with options that override the caller's."""
    given = request.provider_options
    merged = {**given, provider: {**given.get(provider, {}), **options}}
    return msgspec.structs.replace(request, provider_options=merged)
