"""Looks through the frames of all exchanges for what llmstream repairs or does not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.openai_chat import wire
from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.probe import Probe, baseline, called, excerpt, found
from llmstream.endpoint_check.report import Finding, Quirk, quirks_of

__all__ = ["WIRE"]

_OTHERS: Final = "llmstream repairs it; other clients do not."
# Fields of a delta that are read, or say nothing.
_KNOWN_DELTA: Final = frozenset({*wire.Delta.__struct_fields__, "role", "obfuscation", "name"})

# An unread field is a loss if it holds text: several values, or a long one.
_VARIED: Final = 4
_LONG_CHARS: Final = 40

# Types of the events of a stream, for dialects whose events have one.
_KNOWN_TYPES: Final = {
    "anthropic": re.compile(r"message_(start|delta|stop)|content_block_(start|delta|stop)|ping|error"),
    "cohere": re.compile(
        r"message-(start|end)|(content|tool-call|citation)-(start|delta|end)|tool-plan-delta|debug"
    ),
    # New types of events keep the prefix.
    "openai-responses": re.compile(r"response\.[a-z_.]+|error|keepalive"),
}


async def _wire(endpoint: Endpoint) -> list[Finding]:
    await baseline(endpoint)
    await called(endpoint)
    answered = [exchange for exchange in endpoint.exchanges if exchange.reads]
    findings = list(_defects(answered))
    if quirks_of(endpoint.model) is not None:
        findings += [*_ids(answered), *_fragments(answered), *_unread(answered)]
    else:
        findings += _unknown_types(answered, endpoint.model.provider.dialect.name)
    count = sum(len(exchange.frames) for exchange in answered)
    counted = f"{count} frames" if count else f"{sum(len(e.reads) for e in answered)} reads"
    return findings or [found("ok", f"{counted} of {len(answered)} responses, all of them read")]


def _defects(exchanges: list[Exchange]) -> Iterator[Finding]:
    """Events that could not be decoded."""
    defects = [message for exchange in exchanges for message in exchange.defects]
    if defects:
        yield found(
            "broken",
            f"{len(defects)} events could not be decoded",
            meaning="What they held is lost: DecodeError is raised after the response.",
            evidence=excerpt(defects[0]),
        )


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none of anything else, since a broken wire may hold any value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _deltas(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The pieces of a stream of Chat Completions."""
    for frame in exchange.frames:
        for choice in _objects(frame.get("choices")):
            if isinstance(delta := choice.get("delta"), dict):
                yield delta


def _calls_of(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The fragments of calls in a stream of Chat Completions."""
    for delta in _deltas(exchange):
        yield from _objects(delta.get("tool_calls"))


def _named(exchange: Exchange) -> list[dict[str, Any]]:
    """The fragments that begin a call."""
    found_calls = []
    for fragment in _calls_of(exchange):
        function = fragment.get("function")
        if isinstance(function, dict) and function.get("name"):
            found_calls.append(fragment)
    return found_calls


def _ids(exchanges: list[Exchange]) -> Iterator[Finding]:
    """Calls without an id, with an id twice, and ids that restart in each response."""
    seen: dict[str, int] = {}
    missing = twice = 0
    for exchange in exchanges:
        ids = [one.get("id") for one in _named(exchange)]
        missing += sum(not one for one in ids)
        given = [str(one) for one in ids if one]
        twice += len(given) - len(set(given))
        # Once for each response: two in one response are counted above.
        for one in set(given):
            seen[one] = seen.get(one, 0) + 1
    if missing:
        yield found("degraded", f"{missing} tool calls have no id", meaning=_OTHERS)
    if twice:
        meaning = "llmstream gives the second another id; other clients mix up the results."
        yield found("degraded", "duplicated ids: calls of one response share an id", meaning=meaning)
    again = [one for one, times in seen.items() if times > 1]
    if again:
        yield found(
            "degraded",
            f"ids of calls repeat in each response ({again[0]})",
            meaning="A conversation cannot distinguish the calls of two turns.",
            quirk=Quirk("ToolQuirks", {"numbered_call_ids": True}) if again[0].startswith("call_") else None,
        )


def _fragments(exchanges: list[Exchange]) -> Iterator[Finding]:
    """Arguments that are no text, and fragments without an index."""
    fragments = [fragment for exchange in exchanges for fragment in _calls_of(exchange)]
    objects = [f["function"] for f in fragments if isinstance(_arguments(f), dict | list)]
    if objects:
        shown = excerpt(msgspec.json.encode(objects[0]))
        yield found(
            "degraded", "tool arguments come as a JSON object, not a string", meaning=_OTHERS, evidence=shown
        )
    if any(fragment.get("index") is None for fragment in fragments):
        yield found("degraded", "fragments of tool calls have no index", meaning=_OTHERS)
    if any(_stops(exchange) and exchange.calls for exchange in exchanges):
        yield found(
            "degraded",
            'a response with tool calls has the finish_reason "stop"',
            meaning="llmstream reports tool-calls; other clients do not run the tools.",
        )


def _arguments(fragment: dict[str, Any]) -> Any:
    function = fragment.get("function")
    return function.get("arguments") if isinstance(function, dict) else None


def _stops(exchange: Exchange) -> bool:
    return exchange.finish.raw_finish_reason == "stop"


def _unread(exchanges: list[Exchange]) -> Iterator[Finding]:
    """Fields of deltas with a text that llmstream does not know."""
    fields: dict[str, list[str]] = {}
    for exchange in exchanges:
        for delta in _deltas(exchange):
            for name, value in delta.items():
                if name not in _KNOWN_DELTA and isinstance(value, str) and value:
                    fields.setdefault(name, []).append(value)
    for name, values in fields.items():
        # Marks such as the name of a channel repeat; text does not.
        if len(set(values)) >= _VARIED or max(map(len, values)) >= _LONG_CHARS:
            yield found(
                "degraded",
                f"unknown field {name!r} with text in the pieces of the answer",
                meaning="Its text is not read; it stands in raw events (include_raw=True).",
                evidence=excerpt("".join(values)),
            )


def _unknown_types(exchanges: list[Exchange], dialect: str) -> Iterator[Finding]:
    """Frames of a type that the API's documentation does not have."""
    known = _KNOWN_TYPES.get(dialect)
    if known is None:
        return
    unknown: dict[str, dict[str, Any]] = {}
    for exchange in exchanges:
        for frame in exchange.frames:
            kind = frame.get("type")
            if not (isinstance(kind, str) and known.fullmatch(kind)):
                unknown.setdefault(str(kind), frame)
    for kind, frame in unknown.items():
        yield found(
            "degraded",
            f"unknown type of event {kind!r}" if kind != "None" else "events without a type",
            meaning="It is not read; it stands in raw events (include_raw=True).",
            evidence=excerpt(msgspec.json.encode(frame)),
        )


WIRE: Final = Probe(name="wire", title="frames: ids, types, encoding", run=_wire, requests=0, phase="last")
