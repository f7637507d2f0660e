"""Bodies as the vendors send them, as lists of whole wire events."""

from __future__ import annotations

import json

import llmstream as ls
from llmstream.dialects.base import dialect_class
from llmstream.framing.aws_event_stream import HeaderValue, encode_message
from llmstream.request import Request
from llmstream.server_side.wires import server_side

FRAGMENTS = 20
"""Of one call's input, as a small model writes two arguments."""
WORDS = "The sky looks blue because air scatters short waves of light far more than long ones ".split()


def openai_chat(count: int) -> list[bytes]:
    """Chat completion chunks with the fields that OpenAI sends today."""
    head = {
        "id": "chatcmpl-Bn5X0pYkq2v1a7d9Z3mQwLrT",
        "object": "chat.completion.chunk",
        "created": 1763700000,
        "model": "gpt-5-mini-2025-08-07",
        "service_tier": "default",
        "system_fingerprint": "fp_50cad350e4",
    }

    def chunk(delta: dict[str, object], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: " + _json({**head, "choices": [choice], "usage": None, "obfuscation": "aB3"}) + b"\n\n"

    usage = {"prompt_tokens": 12, "completion_tokens": count, "total_tokens": count + 12}
    return [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        *(chunk({"content": f" {WORDS[i % len(WORDS)]}"}) for i in range(count)),
        chunk({}, "stop"),
        b"data: " + _json({**head, "choices": [], "usage": usage}) + b"\n\n",
        b"data: [DONE]\n\n",
    ]


def anthropic(count: int) -> list[bytes]:
    """Messages events, named and typed."""

    def event(**data: object) -> bytes:
        return f"event: {data['type']}\n".encode() + b"data: " + _json(data) + b"\n\n"

    message: dict[str, object] = {
        "id": "msg_01Xq7",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 12, "output_tokens": 1},
    }
    return [
        event(type="message_start", message=message),
        event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(
            event(
                type="content_block_delta",
                index=0,
                delta={"type": "text_delta", "text": f" {WORDS[i % len(WORDS)]}"},
            )
            for i in range(count)
        ),
        event(type="content_block_stop", index=0),
        event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": count}),
        event(type="message_stop"),
    ]


def ollama(count: int) -> list[bytes]:
    """NDJSON lines of the chat API."""

    def line(content: str, done: bool = False, **more: object) -> bytes:
        message = {"role": "assistant", "content": content}
        data = {"model": "llama3.2", "created_at": "2026-11-21T10:00:00.123456Z", "message": message}
        return _json({**data, "done": done, **more}) + b"\n"

    return [
        *(line(f" {WORDS[i % len(WORDS)]}") for i in range(count)),
        line("", True, done_reason="stop", prompt_eval_count=12, eval_count=count),
    ]


def openai_responses(count: int) -> list[bytes]:
    """Responses events, numbered; the text comes once more in whole at the end, four times over."""
    made: list[bytes] = []

    def event(kind: str, **data: object) -> None:
        body = _json({"type": kind, "sequence_number": len(made), **data})
        made.append(f"event: {kind}\n".encode() + b"data: " + body + b"\n\n")

    deltas = [f" {WORDS[i % len(WORDS)]}" for i in range(count)]
    where = {"item_id": "msg_01", "output_index": 0, "content_index": 0}
    part: dict[str, object] = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item: dict[str, object] = {"id": "msg_01", "type": "message", "status": "in_progress", "content": []}
    item["role"] = "assistant"
    head = {"id": "resp_01", "object": "response", "created_at": 1763700000, "model": "gpt-5-mini"}
    event("response.created", response={**head, "status": "in_progress", "output": [], "usage": None})
    event("response.output_item.added", output_index=0, item=item)
    event("response.content_part.added", **where, part=part)
    for delta in deltas:
        event("response.output_text.delta", **where, delta=delta, logprobs=[], obfuscation="x7Kq")
    part = {**part, "text": "".join(deltas)}
    item = {**item, "status": "completed", "content": [part]}
    event("response.output_text.done", **where, logprobs=[], text=part["text"])
    event("response.content_part.done", **where, part=part)
    event("response.output_item.done", output_index=0, item=item)
    usage = {"input_tokens": 12, "output_tokens": count, "total_tokens": count + 12}
    event("response.completed", response={**head, "status": "completed", "output": [item], "usage": usage})
    return made


def gemini(count: int) -> list[bytes]:
    """generateContent chunks, each with the usage so far."""

    def chunk(number: int, **more: object) -> bytes:
        content = {"parts": [{"text": f" {WORDS[number % len(WORDS)]}"}], "role": "model"}
        counted = {"promptTokenCount": 12, "candidatesTokenCount": number + 1, "totalTokenCount": number + 13}
        data = {"candidates": [{"content": content, "index": 0, **more}], "usageMetadata": counted}
        return (
            b"data: " + _json({**data, "modelVersion": "gemini-2.5-flash", "responseId": "X7"}) + b"\r\n\r\n"
        )

    return [*(chunk(i) for i in range(count - 1)), chunk(count - 1, finishReason="STOP")]


def mistral(count: int) -> list[bytes]:
    """Chat completion chunks as Mistral sends them, shorter than OpenAI's."""

    def chunk(delta: dict[str, object], reason: str | None = None, **more: object) -> bytes:
        head = {"id": "cmpl-01", "object": "chat.completion.chunk", "created": 1763700000, "model": "mistral"}
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + _json({**head, "choices": [choice], "p": "abcdef", **more}) + b"\n\n"

    usage = {"prompt_tokens": 12, "completion_tokens": count, "total_tokens": count + 12}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": f" {WORDS[i % len(WORDS)]}"}) for i in range(count)),
        chunk({"content": ""}, "stop", usage=usage),
        b"data: [DONE]\n\n",
    ]


def cohere(count: int) -> list[bytes]:
    """Events of the chat API, named and typed, with the text two levels down."""

    def event(kind: str, **data: object) -> bytes:
        return f"event: {kind}\n".encode() + b"data: " + _json({"type": kind, **data}) + b"\n\n"

    def content(kind: str, **content: str) -> bytes:
        return event(kind, index=0, delta={"message": {"content": content}})

    usage = {"tokens": {"input_tokens": 12, "output_tokens": count}}
    return [
        event("message-start", id="m1", delta={"message": {"role": "assistant", "content": []}}),
        content("content-start", type="text", text=""),
        *(content("content-delta", text=f" {WORDS[i % len(WORDS)]}") for i in range(count)),
        event("content-end", index=0),
        event("message-end", delta={"finish_reason": "COMPLETE", "usage": usage}),
    ]


def gemini_interactions(count: int) -> list[bytes]:
    """Events of the Interactions API."""

    def event(kind: str, **data: object) -> bytes:
        return f"event: {kind}\n".encode() + b"data: " + _json({**data, "event_type": kind}) + b"\n\n"

    usage = {"total_input_tokens": 12, "total_output_tokens": count, "total_tokens": count + 12}
    head = {"id": "v1_01", "object": "interaction", "model": "gemini-2.5-flash"}
    return [
        event("interaction.created", interaction={**head, "status": "in_progress"}),
        event("step.start", index=0, step={"type": "model_output"}),
        *(
            event("step.delta", index=0, delta={"text": f" {WORDS[i % len(WORDS)]}", "type": "text"})
            for i in range(count)
        ),
        event("step.stop", index=0),
        event("interaction.completed", interaction={**head, "status": "completed", "usage": usage}),
        b"event: done\ndata: [DONE]\n\n",
    ]


def bedrock_converse(count: int) -> list[bytes]:
    """Binary messages of ConverseStream, each with two checksums."""

    def message(kind: str, **data: object) -> bytes:
        headers: dict[str, HeaderValue] = {
            ":event-type": kind,
            ":content-type": "application/json",
            ":message-type": "event",
        }
        return encode_message(headers, _json({**data, "p": "abcdefgh"}))

    usage = {"inputTokens": 12, "outputTokens": count, "totalTokens": count + 12}
    return [
        message("messageStart", role="assistant"),
        *(
            message("contentBlockDelta", contentBlockIndex=0, delta={"text": f" {WORDS[i % len(WORDS)]}"})
            for i in range(count)
        ),
        message("contentBlockStop", contentBlockIndex=0),
        message("messageStop", stopReason="end_turn"),
        message("metadata", usage=usage, metrics={"latencyMs": 900}),
    ]


def tool_calls(family: str, count: int) -> list[bytes]:
    """Calls with some `count` fragments of input in all, as the simulator writes them on this wire.

    Wires that have no fragments (Gemini, Mistral, Ollama) carry the same calls, each in one event.
    """
    encoder = server_side(dialect_class(family)()).event_encoder(Request(model="any"))
    events: list[ls.Event] = [ls.StreamStart([]), ls.ResponseMetadata("any", "answer_01")]
    for call in range(max(count // FRAGMENTS, 1)):
        id, name = f"call_{call:04}", "weather"
        deltas = ['{"place": "', *(f" {WORDS[i % len(WORDS)]}" for i in range(FRAGMENTS - 2)), '"}']
        events += [
            ls.ToolInputStart(name, id),
            *(ls.ToolInputDelta(delta, id) for delta in deltas),
            ls.ToolInputEnd(id),
            ls.ToolCall(name, "".join(deltas), id),
        ]
    events.append(ls.Finish("tool-calls", ls.Usage(12, count, count + 12)))
    written = [*(encoder.feed(event) for event in events), encoder.close()]
    return [piece for piece in written if piece]


RESULT_MARK = "@@"
"""In each result of a tool of an agent, so that a server can count the results in a request of any wire."""


def agent_step(family: str, step: int, calls: int) -> bytes:
    """The answer of one step of an agent: a text and some calls of `look`; none for the last step."""
    encoder = server_side(dialect_class(family)()).event_encoder(Request(model="any"))
    events: list[ls.Event] = [ls.StreamStart([]), ls.ResponseMetadata("any", f"answer_{step:04}")]
    events += [ls.TextStart("0"), *(ls.TextDelta(f"{word} ", "0") for word in WORDS), ls.TextEnd("0")]
    for number in range(calls):
        id, page = f"call_{step:04}_{number}", str(step * calls + number)
        events += [
            ls.ToolInputStart("look", id),
            *(ls.ToolInputDelta(delta, id) for delta in ('{"page": ', page, "}")),
            ls.ToolInputEnd(id),
            ls.ToolCall("look", f'{{"page": {page}}}', id),
        ]
    events.append(ls.Finish("tool-calls" if calls else "stop", ls.Usage(12, 30, 42)))
    return b"".join([*map(encoder.feed, events), encoder.close()])


def body_of(family: str, count: int, kind: str = "text") -> list[bytes]:
    """The wire events of one answer: `count` deltas of text, or of the input of calls ("tools")."""
    return BODIES[family](count) if kind == "text" else tool_calls(family, count)


BODIES = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-interactions": gemini_interactions,
    "bedrock-converse": bedrock_converse,
    "cohere": cohere,
    "mistral": mistral,
    "ollama": ollama,
}
CONTENT_TYPES = {
    "openai-chat": "text/event-stream",
    "openai-responses": "text/event-stream",
    "anthropic": "text/event-stream",
    "gemini": "text/event-stream",
    "gemini-interactions": "text/event-stream",
    "bedrock-converse": "application/vnd.amazon.eventstream",
    "cohere": "text/event-stream",
    "mistral": "text/event-stream",
    "ollama": "application/x-ndjson",
}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
