"""Probes of the stream itself: text, end, pieces, times, usage, connection, cancellation."""

from __future__ import annotations

import codecs
import itertools
import statistics
import unicodedata
from typing import Final

from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.probe import (
    Probe,
    asked,
    baseline,
    excerpt,
    failure,
    found,
    inconclusive,
    message_of,
    silent,
)
from llmstream.endpoint_check.report import Finding, Quirk, quirk_for_refusal, quirks_of
from llmstream.errors import BadRequest, LLMStreamError
from llmstream.events import TextDelta

__all__ = ["CANCELLATION", "STREAM_PROBES"]

# Longer than the usual limit, so that it can be closed before its end.
_LONG: Final = "Count from 1 to 400. Write the numbers in digits, separated by commas, and nothing else."
_SHORT: Final = "Count from 1 to 3. Write the numbers in digits, separated by commas, and nothing else."

# What ends a stream by the API's documentation, where a response may be complete without it.
_END_MARKS: Final = {
    "openai-chat": b"[DONE]",
    "mistral": b"[DONE]",
    "anthropic": b"message_stop",
    "cohere": b"message-end",
}

# Accents, scripts of two to four bytes a character, marks that combine, and joined emoji.
_PIECES: Final = ("naïve café", "Ωμέγα", "你好世界", "こんにちは", "नमस्ते", "👩‍🚀", "🏳️‍🌈", "🙂")
# Fewer show no rhythm.
_FEW_DELTAS: Final = 10
# Below, all of a response may come in one read although nothing buffers.
_LONG_ENOUGH_S: Final = 0.3
# The share of the time within which a buffered response comes.
_BURST: Final = 0.1
# Numbers and commas have two to four characters a token.
_MAX_CHARS_A_TOKEN: Final = 20

# Of the limit of tokens: vendors count the last ones differently.
_NEARLY: Final = 0.9

# More pieces than these in a read, after such a pause, were held back together.
_PIECES_A_READ: Final = 8
_PAUSE_S: Final = 0.1

# A request after an abandoned one waits so much longer than the first where the server still generates.
_SLOWER: Final = 3.0
_SLOWER_S: Final = 1.5


async def _text(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    if problem := _refused(exchange, endpoint) or failure(exchange, "a plain question") or silent(exchange):
        return problem
    reason, raw = exchange.finish.finish_reason, exchange.finish.raw_finish_reason
    if reason == "stop" or (reason == "length" and _is_long(exchange, endpoint.max_tokens)):
        return found("ok", f"{len(exchange.text)} characters, finish reason {reason}")
    if reason == "unknown":
        return found(
            "degraded",
            "the response has no finish reason",
            meaning="A complete answer cannot be distinguished from a cut one.",
        )
    ends = f"a complete answer ends in {raw or reason!r} instead of stop"
    if reason == "other":
        known = raw is not None and quirks_of(endpoint.model) is not None
        return found(
            "degraded",
            f"unknown finish reason: {ends}",
            meaning="A program gets the finish reason other.",
            quirk=Quirk("Quirks", {"finish_reasons": {raw: "stop"}}) if known else None,
        )
    return found(
        "broken",
        f"wrong finish reason: {ends}",
        meaning="A program treats a complete answer as cut, or waits for tool calls.",
    )


def _refused(exchange: Exchange, endpoint: Endpoint) -> Finding | None:
    """The finding for a plain question that is refused: no optional feature, but all requests fail."""
    if not isinstance(exchange.error, BadRequest):
        return None
    message = message_of(exchange.error)
    return found(
        "broken",
        f"a plain question is refused (HTTP {exchange.error.status}): {message}",
        meaning="No request gets through as llmstream sends it.",
        quirk=quirk_for_refusal(quirks_of(endpoint.model), message),
        evidence=excerpt(exchange.error_body),
    )


def _is_long(exchange: Exchange, max_tokens: int) -> bool:
    """Whether a response may really have been cut by the limit."""
    tokens = exchange.usage.output_tokens or len(exchange.text) + len(exchange.reasoning)
    # The count goes to 40: an answer that has it needed no more room.
    return "40" not in exchange.text or tokens >= _NEARLY * max_tokens


async def _content_type(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    wanted, got = endpoint.model.provider.dialect.content_type, exchange.media_type
    if exchange.error is not None and not exchange.reads:
        return found("skipped", "there was no stream")
    if got == wanted:
        return found("ok", got)
    if exchange.reads and got == "application/json":
        meaning = "llmstream reads it as one value: nothing is shown before the end."
        return found("degraded", f"the stream has the Content-Type {got}, not {wanted}", meaning=meaning)
    return found(
        "degraded",
        f"the stream has the Content-Type {got or '(none)'}, not {wanted}",
        meaning="llmstream reads it; browsers' EventSource and some proxies do not.",
    )


async def _end(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    code = exchange.error.code if exchange.error is not None else ""
    cut = code in ("incomplete-stream", "connection-lost")
    if cut and (problem := failure(exchange, "the end of the stream")):
        return problem
    mark = _END_MARKS.get(endpoint.model.provider.dialect.name)
    if not exchange.reads:
        return found("skipped", "there was no stream")
    if mark is None or mark in exchange.body:
        return found("ok", mark.decode() if mark else "the response is marked as complete")
    return found(
        "degraded",
        f"the stream ends without {mark.decode()}",
        meaning="llmstream accepts the finish reason as the end; other clients wait or report a cut answer.",
        evidence=excerpt(exchange.body[-160:]),
    )


async def _streaming(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    deltas, reads = len(exchange.all(TextDelta)), len(exchange.content_s)
    if not deltas:
        return found("skipped", "there was no text")
    if deltas == 1 and len(exchange.text) > 60:
        return found(
            "degraded",
            "the text comes as a single piece",
            meaning="A person sees nothing before the end.",
            remedy="The server generates first and streams afterwards: look for an option of its own.",
        )
    if deltas >= _FEW_DELTAS and exchange.total_s > _LONG_ENOUGH_S and _in_bursts(exchange, deltas):
        first = exchange.content_s[0]
        times = "1 read" if reads == 1 else f"{reads} reads"
        return found(
            "degraded",
            f"buffering: {deltas} pieces arrive in {times}, the first {first:.2f} s after the request",
            meaning="A person sees nothing for long, then much at once; idle deadlines fire early.",
            remedy="Turn buffering off in the proxy (nginx: proxy_buffering off; X-Accel-Buffering: no).",
        )
    return found("ok", f"{deltas} pieces in {reads} reads")


def _in_bursts(exchange: Exchange, deltas: int) -> bool:
    """Whether a few reads have all of the text, with pauses before or between them."""
    times = exchange.content_s
    late = exchange.total_s - times[0] < _BURST * exchange.total_s
    longest = max((b - a for a, b in itertools.pairwise(times)), default=0.0)
    return deltas / len(times) >= _PIECES_A_READ and (late or longest > _PAUSE_S)


async def _latency(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    if not exchange.content_s:
        return found("skipped", "there was no content")
    times = exchange.content_s
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    between = f", {statistics.median(gaps) * 1000:.0f} ms between reads" if gaps else ""
    longest = f" (longest {max(gaps) * 1000:.0f} ms)" if gaps else ""
    return found("ok", f"first token after {times[0]:.2f} s{between}{longest}")


async def _usage(endpoint: Endpoint) -> Finding:
    exchange = await baseline(endpoint)
    if problem := failure(exchange, "a plain question"):
        return found("skipped", problem.detail)
    usage, quirks = exchange.usage, quirks_of(endpoint.model)
    if usage.output_tokens and usage.output_tokens < len(exchange.text) / _MAX_CHARS_A_TOKEN:
        return found(
            "degraded",
            f"usage is implausible: {usage.output_tokens} output tokens for {len(exchange.text)} characters",
            meaning="Cost limits, prices and rate limiters count too little.",
        )
    if usage.input_tokens and usage.output_tokens:
        return found("ok", f"{usage.input_tokens} in, {usage.output_tokens} out")
    missing = [name for name in ("input_tokens", "output_tokens") if not getattr(usage, name)]
    off = quirks is not None and not quirks.settings.stream_options
    return found(
        "degraded",
        f"no usage: {' and '.join(missing)} not reported",
        meaning="Cost limits, prices and rate limiters do not count these responses.",
        quirk=Quirk("SettingQuirks", {"stream_options": True}) if off else None,
        remedy="" if off or quirks is None else "The server ignores stream_options.include_usage.",
    )


async def _unicode(endpoint: Endpoint) -> Finding:
    text = " | ".join(_PIECES)
    first = f"Repeat this line exactly, character by character, and write nothing else:\n{text}"
    return await asked(endpoint, _judge_unicode, first, f"Copy this text unchanged:\n{text}")


def _judge_unicode(exchange: Exchange) -> Finding:
    if problem := failure(exchange, "a prompt with Unicode"):
        return problem
    garbled = "Text in other languages and emoji arrive garbled."
    if exchange.payloads:
        try:
            exchange.body.decode()
        except UnicodeDecodeError as error:
            around = exchange.body[max(0, error.start - 20) : error.end + 20]
            return found("broken", "the body is not UTF-8", meaning=garbled, evidence=repr(around))
    # A model may compose accents differently, which is not a fault of the wire.
    text = unicodedata.normalize("NFC", exchange.text)
    if "\ufffd" in text:
        return found(
            "broken",
            "characters are cut: U+FFFD stands in the text",
            meaning=garbled,
            remedy="The server decodes tokens one by one; it has to wait for complete characters.",
            evidence=excerpt(text),
        )
    wrong = [piece for piece in _PIECES if any(form in text for form in _mojibake(piece))]
    if wrong:
        detail = f"mojibake: UTF-8 was read as another encoding, in {', '.join(wrong)}"
        return found("broken", detail, meaning=garbled, evidence=excerpt(text))
    missing = [piece for piece in _PIECES if unicodedata.normalize("NFC", piece) not in text]
    if not missing:
        cut = _cuts(exchange)
        return found("ok", "all characters arrive complete" + (f"; {cut} reads cut one" if cut else ""))
    if "????" in text:
        return found("broken", "characters became question marks", meaning=garbled, evidence=excerpt(text))
    return inconclusive(f"the model did not repeat {', '.join(missing)}", exchange)


def _cuts(exchange: Exchange) -> int:
    """How many reads ended inside a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    count = 0
    for read in exchange.reads:
        decoder.decode(read.data)
        count += bool(decoder.getstate()[0])
    return count


def _mojibake(piece: str) -> list[str]:
    """The piece with its UTF-8 bytes read as another encoding, as far as that has them."""
    raw = piece.encode()
    forms = [raw.decode("latin-1"), raw.decode("cp1252", "ignore")]
    return [form for form in forms if form != piece]


async def _keep_alive(endpoint: Endpoint) -> Finding:
    await baseline(endpoint)
    exchange = await endpoint.once("second", _SHORT)
    if exchange.error is not None:
        return found("skipped", "the second request failed")
    if exchange.reused is None:
        return found("skipped", "the connection cannot be seen")
    if exchange.reused:
        return found("ok", "the connection serves several requests")
    closes = exchange.headers.get("connection", "").lower() == "close"
    return found(
        "degraded",
        "no keep-alive: each request opens a connection" + (" (Connection: close)" if closes else ""),
        meaning="Each request waits for a new connection, with TLS some tens of milliseconds more.",
    )


async def _cancellation(endpoint: Endpoint) -> Finding:
    first = await baseline(endpoint)
    left = await endpoint.ask(_LONG, leave_after=2)
    if problem := failure(left, "a long answer"):
        return problem
    after = await endpoint.ask(_SHORT)
    if problem := failure(after, "the request after an abandoned one"):
        return problem
    if first.content_s and after.content_s:
        usual, waited = first.content_s[0], after.content_s[0]
        # Both: times of a fast server vary by more than a factor, those of a slow one by seconds.
        if waited > _SLOWER * usual and waited > usual + _SLOWER_S:
            return found(
                "degraded",
                f"after an abandoned response the next one waits {waited:.1f} s instead of {usual:.1f} s",
                meaning="The server continues to generate without a reader; its tokens may be charged.",
            )
    # Then nothing was abandoned, and the wait shows little.
    ended = " (the response was over before it was left)" if left.finish.finish_reason != "unknown" else ""
    return found("ok", f"the next request is answered at once{ended}")


async def _model(endpoint: Endpoint) -> Finding:
    try:
        check = await endpoint.model.check()
    except LLMStreamError as error:
        return found("broken", f"{error.code}: {message_of(error)}", meaning="No request gets through.")
    if check.known is False:
        similar = f"; similar: {', '.join(check.similar)}" if check.similar else ""
        return found("degraded", f"the list of models does not have {check.model!r}{similar}")
    if check.reachable is None or check.known is None:
        return found("ok", "there is no list of models to look it up in")
    return found("ok", "reachable, key accepted, model listed")


STREAM_PROBES: Final = (
    Probe(name="model", title="address, key, list of models", run=_model, requests=0, phase="first"),
    Probe(name="text", title="a plain answer", run=_text, phase="first"),
    Probe(name="keep-alive", title="connection reused", run=_keep_alive, phase="first"),
    Probe(name="content-type", title="media type", run=_content_type, requests=0),
    Probe(name="end", title="end of the stream marked", run=_end, requests=0),
    Probe(name="streaming", title="text in pieces, unbuffered", run=_streaming, requests=0),
    Probe(name="latency", title="time to the first token", run=_latency, requests=0),
    Probe(name="usage", title="tokens reported", run=_usage, requests=0),
    Probe(name="unicode", title="emoji, CJK, combining text", run=_unicode),
)

CANCELLATION: Final = Probe(
    name="cancellation", title="leaving a response", run=_cancellation, requests=2, phase="last"
)
"""After the others: a server that generates on would slow them down."""
