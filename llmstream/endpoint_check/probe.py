"""A probe: a name, its cost, and a function that sends requests to the endpoint and judges the exchange.

A judge separates "the wire broke" from "the model chose otherwise". The latter is `inconclusive`, and the
question is asked again in simpler words. Also here: the questions and exchanges shared by several probes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.report import Finding, Quirk, Status
from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    CallerError,
    ContentFiltered,
    LLMStreamError,
    NotFound,
    Overloaded,
    PermissionDenied,
    RateLimited,
)
from llmstream.events import UnsupportedSetting
from llmstream.request import ToolSpec

__all__ = [
    "COUNTING",
    "WEATHER",
    "Judge",
    "Probe",
    "Run",
    "asked",
    "baseline",
    "called",
    "excerpt",
    "failure",
    "found",
    "inconclusive",
    "left_out",
    "message_of",
    "silent",
]

Judge: TypeAlias = Callable[[Exchange], Finding]
"""What an exchange shows."""

Run: TypeAlias = Callable[[Endpoint], Awaitable[Finding | Iterable[Finding]]]
"""Asks the endpoint; the findings' probe is filled in by the runner."""

# An answer that any model gives, long enough to show a rhythm, and whose end is known.
COUNTING: Final = "Count from 1 to 40. Write the numbers in digits, separated by commas, and nothing else."
WEATHER: Final = ToolSpec(
    "get_weather",
    "Tells the weather of one city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_ASK: Final = "Call the tool get_weather for Reykjavik. Do not answer yourself."
_EXCERPT_CHARS: Final = 160
_MESSAGE_CHARS: Final = 400
# What servers answer to a field that they do not know, or to a path or type that they lack.
_UNSUPPORTED_STATUS: Final = frozenset({400, 405, 415, 422, 501})


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One question to an endpoint.

    name:     as in `--only`
    title:    what it checks
    requests: how many it sends; further ones only if an answer shows nothing
    tokens:   limit of its responses, if it needs more than the others
    phase:    "first" and "last" run one after the other, before and after the rest
    """

    name: str
    title: str
    run: Run
    requests: int = 1
    tokens: int = 0
    phase: Literal["first", "middle", "last"] = "middle"


def excerpt(text: str | bytes, limit: int = _EXCERPT_CHARS) -> str:
    """The beginning of a text, for people."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def found(status: Status, detail: str, **more: Any) -> Finding:
    """A finding; its probe is filled in later."""
    return Finding(probe="", status=status, detail=detail, **more)


def inconclusive(detail: str, exchange: Exchange | None = None) -> Finding:
    """The model chose otherwise."""
    evidence = "" if exchange is None else excerpt(exchange.text or exchange.reasoning)
    return found("inconclusive", detail, evidence=evidence)


def silent(exchange: Exchange) -> Finding | None:
    """The finding for a response without text or calls; None if it has some."""
    if exchange.text.strip() or exchange.calls:
        return None
    # Models that reason count their thoughts against the limit.
    if exchange.finish.finish_reason == "length":
        return inconclusive("all tokens of the limit went to reasoning; allow more with --max-tokens")
    if exchange.reasoning:
        return inconclusive("the response has reasoning, but no text")
    return inconclusive("the response is empty")


def failure(
    exchange: Exchange, feature: str, *, quirk: Quirk | None = None, remedy: str = ""
) -> Finding | None:
    """The finding for an exchange that failed; None for one that did not.

    feature: what was asked for, as the subject of a sentence
    quirk:   leaves it out of requests
    """
    error = exchange.error
    if error is None:
        return None
    reason = f"{error.code}{f' (HTTP {error.status})' if error.status else ''}: {message_of(error)}"
    if isinstance(error, RateLimited | Overloaded):
        return found("skipped", f"refused for now: {reason}")
    if isinstance(error, CallerError):  # llmstream itself does not support it here
        return found("unsupported", excerpt(message_of(error)))
    if isinstance(error, ContentFiltered):
        return inconclusive(f"refused by a content filter: {reason}")
    # AuthenticationError and the like may have a 400 as well (Google, xAI).
    refused = isinstance(error, BadRequest) or error.status in _UNSUPPORTED_STATUS
    if refused and not isinstance(error, AuthenticationError | PermissionDenied | NotFound):
        return found(
            "unsupported",
            f"{feature} is refused: {reason}",
            meaning="A request with it fails; leave it out.",
            quirk=quirk,
            remedy=remedy,
        )
    detail = f"{feature}: the response failed: {reason}"
    evidence = excerpt(exchange.error_body or exchange.body[-_EXCERPT_CHARS:])
    meaning = _MEANINGS.get(error.code, f"A program gets {type(error).__name__}.")
    return found("broken", detail, meaning=meaning, remedy=remedy, evidence=evidence)


_MEANINGS: Final = {
    "incomplete-stream": "The answer looks like one that was cut: IncompleteStream is raised.",
    "connection-lost": "The answer is cut: ConnectionLost is raised.",
    "not-a-stream": "A program gets NotAStream instead of an answer.",
    "decode-error": "Some events are lost: DecodeError is raised after the response.",
    "server-error": "A program gets ServerError, and repeats the request in vain.",
    "deadline-exceeded": "A program waits until its deadline.",
}


def message_of(error: LLMStreamError) -> str:
    """The message of an error on one line."""
    return excerpt(" ".join(error.message.split()), _MESSAGE_CHARS)


async def asked(endpoint: Endpoint, judge: Judge, *prompts: Any, **options: Any) -> Finding:
    """Asks until an answer shows something, in plainer words each time."""
    finding = inconclusive("no request was sent")
    for attempt in range(max(1, endpoint.attempts)):
        exchange = await endpoint.ask(prompts[min(attempt, len(prompts) - 1)], **options)
        finding = judge(exchange)
        if finding.status != "inconclusive":
            break
    return finding


async def baseline(endpoint: Endpoint) -> Exchange:
    """A response of about a hundred tokens, examined by most probes of the stream."""
    return await endpoint.once("baseline", COUNTING)


async def called(endpoint: Endpoint) -> Exchange:
    """A response that calls a tool."""
    return await endpoint.once("tools", _ASK, tools=[WEATHER])


def left_out(exchange: Exchange, setting: str) -> str | None:
    """Why the request went without a setting, by this provider's quirks or dialect; None if it was sent."""
    for warning in exchange.warnings:
        if isinstance(warning, UnsupportedSetting) and warning.setting.startswith(setting):
            return warning.details or f"{setting} is left out for this provider"
    return None
