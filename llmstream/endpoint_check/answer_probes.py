"""Probes of the options of a request: system prompt, limits, settings, schema, image, reasoning, turns."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any, Final, Literal

import msgspec

from llmstream.chats.content import Image, Reasoning
from llmstream.chats.message import Message
from llmstream.dialects.decoder import UNREADABLE
from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.probe import (
    COUNTING,
    Probe,
    asked,
    excerpt,
    failure,
    found,
    inconclusive,
    left_out,
    silent,
)
from llmstream.endpoint_check.report import Finding, Quirk, quirks_of, unsupported
from llmstream.errors import LLMStreamError
from llmstream.first_use import prepared
from llmstream.request import Request

__all__ = ["ANSWER_PROBES"]

# The smallest limit that all vendors accept.
_SHORT_LIMIT: Final = 16
_LONG_COUNT: Final = COUNTING.replace("40", "200")
# More numbers than this are more than the limit's tokens, whatever the tokenizer.
_WORDS_OF_LIMIT: Final = 60
# Room for the smallest budget of reasoning, 1024 tokens, and an answer.
_THINKING_TOKENS: Final = 4096

_SETTINGS: Final[dict[str, Any]] = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40,
    "seed": 7,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
}


async def _system(endpoint: Endpoint) -> Finding:
    instructions = "Begin every answer with the word BEACON, in capitals."

    def judge(exchange: Exchange) -> Finding:
        if problem := failure(exchange, "a system prompt", quirk=_role_quirk(endpoint)) or silent(exchange):
            return problem
        if "BEACON" in exchange.text.upper():
            return found("ok", "the model follows it")
        return inconclusive("the model did not follow the system prompt", exchange)

    finding = await asked(
        endpoint, judge, "What is the capital of France?", "Say hello.", instructions=instructions
    )
    if finding.status != "inconclusive" or not finding.evidence:
        return finding
    return found(
        "degraded",
        f"the system prompt is ignored, in {endpoint.attempts} of {endpoint.attempts} answers",
        meaning="Instructions have no effect: the server or its template drops them, or the model is weak.",
        quirk=_role_quirk(endpoint),
        evidence=finding.evidence,
    )


def _role_quirk(endpoint: Endpoint) -> Quirk | None:
    quirks = quirks_of(endpoint.model)
    return Quirk("Quirks", {"system_role": "system"}) if quirks and quirks.system_role != "system" else None


async def _stop(endpoint: Endpoint) -> Finding:
    quirk = unsupported(quirks_of(endpoint.model), "stop")

    def judge(exchange: Exchange) -> Finding:
        if why := left_out(exchange, "stop"):
            return found("unsupported", why)
        if problem := failure(exchange, "a stop sequence", quirk=quirk) or silent(exchange):
            return problem
        numbers = re.findall(r"\d+", exchange.text)
        if "7" not in numbers:
            return inconclusive("the model did not count", exchange)
        # 15 first: a longer text also has the sequence.
        if "15" in numbers:
            return found(
                "broken",
                "the stop sequence is ignored",
                meaning="The text continues after the sequence; cut it yourself.",
                quirk=quirk,
                evidence=excerpt(exchange.text),
            )
        if "14" in numbers:
            detail = "the text includes the stop sequence"
            return found("degraded", detail, evidence=excerpt(exchange.text))
        if exchange.finish.finish_reason != "stop":
            return found(
                "degraded", f"a stop sequence ends in finish reason {exchange.finish.finish_reason}, not stop"
            )
        return found("ok", "ends before the sequence, finish reason stop")

    return await asked(endpoint, judge, COUNTING, stop=["14"])


async def _length(endpoint: Endpoint) -> Finding:
    finding = await asked(endpoint, _judge_length, _LONG_COUNT, max_output_tokens=_SHORT_LIMIT)
    quirks = quirks_of(endpoint.model)
    if finding.status != "broken" or quirks is None or "ignored" not in finding.detail:
        return finding
    names = ("max_tokens", "max_completion_tokens")
    # Servers know one of the two names and ignore the other.
    other = names[quirks.settings.max_tokens_field == names[0]]
    limit = {endpoint.model.provider.name: {other: _SHORT_LIMIT}}
    again = await endpoint.ask(_LONG_COUNT, max_output_tokens=_SHORT_LIMIT, provider_options=limit)
    if _judge_length(again).status != "ok":
        return finding
    return msgspec.structs.replace(
        finding,
        detail=f"{finding.detail}; as {other} it is obeyed",
        quirk=Quirk("SettingQuirks", {"max_tokens_field": other}),
    )


def _judge_length(exchange: Exchange) -> Finding:
    if problem := failure(exchange, "a limit of output tokens"):
        return problem
    reason = exchange.finish.finish_reason
    if len(re.findall(r"\d+", exchange.text)) > _WORDS_OF_LIMIT:
        return found(
            "broken",
            f"the limit of {_SHORT_LIMIT} output tokens is ignored",
            meaning="A response may cost and last far more than intended.",
        )
    if reason == "length":
        return found("ok", "cut, finish reason length")
    # Only an answer that began to count, and did not get to 200, was cut for certain.
    if not re.match(r"\s*1\D+2\D+3\b", exchange.text) or re.search(r"\b200\b", exchange.text):
        return inconclusive("the model did not count, or was shorter than the limit", exchange)
    return found(
        "broken",
        f"wrong finish reason: a cut answer ends in {reason} instead of length",
        meaning="A cut answer passes for a complete one.",
        evidence=excerpt(exchange.text),
    )


async def _settings(endpoint: Endpoint) -> Finding:
    exchange = await endpoint.ask("What is 2 + 2? Answer with the number.", **_SETTINGS)
    dropped = [name for name in _SETTINGS if left_out(exchange, name)]
    message = exchange.error.message if exchange.error is not None else ""
    # Servers name the field that they refuse; the quirk omits only these.
    named = [name for name in _SETTINGS if name in message and name not in dropped]
    if problem := failure(exchange, "a setting", quirk=unsupported(quirks_of(endpoint.model), *named)):
        return problem
    sent = ", ".join(name for name in _SETTINGS if name not in dropped)
    return found("ok", f"accepted: {sent}" + (f"; left out: {', '.join(dropped)}" if dropped else ""))


class _Verdict(msgspec.Struct, forbid_unknown_fields=True):
    """The form of an answer that no model gives unasked."""

    fruit: Literal["plum", "pear"]
    grade: int


async def _schema(endpoint: Endpoint) -> Finding:
    able = endpoint.model.provider.dialect.output_abilities(Request(model=endpoint.model.name))
    native = "json_schema" in able or "tool" in able
    quirks = quirks_of(endpoint.model)
    known = quirks is not None and quirks.schemas.output == "json_schema"
    quirk = Quirk("SchemaQuirks", {"output": "json_object"}) if known else None

    def judge(exchange: Exchange) -> Finding:
        if problem := failure(exchange, "a JSON schema", quirk=quirk) or silent(exchange):
            return problem
        try:
            msgspec.json.decode(exchange.text, type=prepared(_Verdict))
        except UNREADABLE as error:
            # The end is missing, so the schema may have been obeyed so far.
            if exchange.finish.finish_reason == "length":
                return inconclusive("the JSON was cut by the limit of tokens", exchange)
            # Without a schema on the wire, only the model can be at fault.
            if not native:
                return inconclusive(f"requested in the prompt, the model did not comply: {error}", exchange)
            return found(
                "broken",
                f"the JSON schema is ignored: {error}",
                meaning="output= raises InvalidOutput, or pays for repairs.",
                quirk=quirk,
                evidence=excerpt(exchange.text),
            )
        return found("ok", "valid against the schema" + ("" if native else ", asked for in the prompt"))

    return await asked(
        endpoint, judge, "Which fruit do you prefer? Explain it in one sentence.", output=_Verdict
    )


def _png(red: int, green: int, blue: int, size: int = 32) -> bytes:
    """An image of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


async def _image(endpoint: Endpoint) -> Finding:
    # A closed list: a model that sees nothing guesses right once in six times.
    question = "Which colour fills this image? Answer with one word: red, green, blue, yellow, black, white."
    prompt = Message.user(question, Image(data=_png(255, 255, 0), media_type="image/png"))

    def judge(exchange: Exchange) -> Finding:
        if any("image" in str(getattr(w, "message", w)).lower() for w in exchange.warnings):
            return found("unsupported", "images are left out for this provider")
        if problem := failure(exchange, "an image") or silent(exchange):
            return problem
        if "yellow" in exchange.text.lower():
            return found("ok", "the model sees it")
        return inconclusive("the model names another colour: it may not see the image", exchange)

    return await asked(endpoint, judge, prompt)


async def _turns(endpoint: Endpoint) -> Finding:
    talk = [
        Message.user("My lucky number is 7413. Remember it."),
        Message.assistant("I will remember it."),
        Message.user("What is my lucky number? Answer with the number."),
    ]

    def judge(exchange: Exchange) -> Finding:
        if problem := failure(exchange, "a conversation") or silent(exchange):
            return problem
        # Models write 7,413 as well.
        if "7413" in exchange.text.replace(",", ""):
            return found("ok", "earlier turns are read")
        return inconclusive("the model did not repeat an earlier turn", exchange)

    return await asked(endpoint, judge, talk)


async def _thought(endpoint: Endpoint) -> Exchange:
    prompt = "Think step by step: what is 17 * 24? Answer with the number."
    limit = max(endpoint.max_tokens, _THINKING_TOKENS)
    return await endpoint.once("reasoning", prompt, reasoning="low", max_output_tokens=limit)


async def _reasoning(endpoint: Endpoint) -> Finding:
    exchange = await _thought(endpoint)
    why = left_out(exchange, "reasoning")
    if why and not exchange.reasoning:
        return found("unsupported", why)
    if problem := failure(exchange, "reasoning"):
        return problem
    # Only a closing tag: the template has opened it in the prompt (Qwen3).
    if tag := re.search(r"</?(think|thinking|reasoning)>", exchange.text):
        tags = "opened" if tag[0].startswith("</") else "tags"
        known = quirks_of(endpoint.model) is not None
        return found(
            "degraded",
            f"reasoning comes inside the text, in {tag[0]}",
            meaning="People see the thoughts as part of the answer, and parsers of JSON fail.",
            quirk=Quirk("ReasoningQuirks", {"tags": tags, "tag": tag[1]}) if known else None,
            remedy="Start the server with a reasoning parser (vLLM: --reasoning-parser).",
        )
    tokens, quirks = exchange.usage.reasoning_tokens, quirks_of(endpoint.model)
    if exchange.reasoning:
        return found("ok", f"{len(exchange.reasoning)} characters before the text")
    if tokens and quirks is not None and quirks.reasoning.field != "none":
        return found(
            "degraded",
            f"reasoning is lost: {tokens} tokens are counted, but none of their text arrives",
            meaning="It is paid for, and cannot be shown or sent back.",
        )
    if tokens:
        return found("ok", f"not shown by this API; {tokens} tokens counted")
    return inconclusive("no reasoning came, and none was counted")


async def _echo(endpoint: Endpoint) -> Finding:
    exchange = await _thought(endpoint)
    if exchange.error is not None or not exchange.reasoning:
        return found("skipped", "there is no reasoning to send back")
    talk = [Message.user("What is 17 * 24?"), exchange.message, Message.user("And 17 * 25?")]
    limit = max(endpoint.max_tokens, _THINKING_TOKENS)
    after = await endpoint.ask(talk, reasoning="low", max_output_tokens=limit)
    quirk = Quirk("ReasoningQuirks", {"echo": "never"}) if quirks_of(endpoint.model) is not None else None
    if problem := failure(after, "reasoning in the history", quirk=quirk):
        return problem
    return found(
        "ok", "accepted" if _is_sent_back(endpoint, exchange, talk) else "not sent back to this provider"
    )


def _is_sent_back(endpoint: Endpoint, exchange: Exchange, talk: list[Message]) -> bool:
    """Whether the request of the next turn has the reasoning, as text or as a signature."""
    request = endpoint.model.request(talk, reasoning="low", max_output_tokens=_THINKING_TOKENS)
    try:
        body = endpoint.model.provider.dialect.encode(
            request, provider=endpoint.model.provider.name
        ).http.body
    except LLMStreamError:
        return False
    parts = [part for part in exchange.message.parts if isinstance(part, Reasoning)]
    # Shorter texts may be in any request by chance.
    marks = [text for part in parts for text in (part.text, *_texts(part.metadata)) if len(text) > 3]
    # As JSON has it, without the quotes.
    return any(msgspec.json.encode(mark)[1:-1] in body for mark in marks)


def _texts(value: object) -> list[str]:
    """All texts in a value of JSON."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    return []


ANSWER_PROBES: Final = (
    Probe(name="system", title="system prompt", run=_system),
    Probe(name="stop", title="stop sequence", run=_stop),
    Probe(name="length", title="limit of output tokens", run=_length),
    Probe(name="settings", title="sampling settings", run=_settings),
    Probe(name="turns", title="conversation of several turns", run=_turns),
    Probe(name="schema", title="JSON schema of the answer", run=_schema),
    Probe(name="image", title="image in the prompt", run=_image),
    Probe(name="reasoning", title="reasoning arrives", run=_reasoning, tokens=_THINKING_TOKENS),
    Probe(name="reasoning-echo", title="reasoning goes back", run=_echo, tokens=_THINKING_TOKENS),
)
