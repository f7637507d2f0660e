"""Answers in which one thing comes again and again, by dialect: blocks, calls, citations, keys.

A flood is a name and a function of a number: the wire's objects of the n-th turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from llmstream.framing.aws_event_stream import encode_message

__all__ = ["FLOODS", "Flood"]

Turn = Callable[[int], list[Any]]


class Flood(NamedTuple):
    """What comes after `head`, once for each number."""

    provider: str
    name: str
    head: list[Any]
    turn: Turn

    def pieces(self, n: int) -> list[bytes]:
        """The body, an event a piece."""
        write = _WRITERS.get(self.provider, _sse)
        return [write(found) for found in [*self.head, *(piece for i in range(n) for piece in self.turn(i))]]

    @property
    def id(self) -> str:
        """For the name of a test."""
        return f"{self.provider}-{self.name.replace(' ', '-')}"


def _sse(found: dict[str, Any]) -> bytes:
    kind = found.get("type") or found.get("event_type")
    name = f"event: {kind}\n" if isinstance(kind, str) else ""
    return f"{name}data: {json.dumps(found)}\n\n".encode()


def _line(found: dict[str, Any]) -> bytes:
    return json.dumps(found).encode() + b"\n"


def _frame(found: dict[str, Any]) -> bytes:
    ((name, members),) = found.items()
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_message(headers, json.dumps(members).encode())


_WRITERS: dict[str, Callable[[dict[str, Any]], bytes]] = {"ollama": _line, "bedrock": _frame}


# chat completions, and Mistral's form of them


def _chunk(**delta: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _call(arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", "f")
    return _chunk(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


def _page(i: int) -> dict[str, Any]:
    return {"type": "url_citation", "url_citation": {"url": f"http://x/{i}", "title": "t"}}


_SPOKEN = [_chunk(content="x")]

CHAT: dict[str, Turn] = {
    "text and reasoning": lambda i: [_chunk(content="x"), _chunk(reasoning_content="y")],
    "calls": lambda i: [_call(index=i, id=f"c{i}")],
    "calls at one index": lambda i: [_call(index=0, id=f"c{i}")],
    "calls of one id": lambda i: [_call(index=i, id="same")],
    "calls of one id in one place": lambda i: [_call(id="same")],
    "calls without id or index": lambda i: [_call()],
    "calls that stay open": lambda i: [_call("{", index=i, id=f"c{i}")],
    "calls between texts": lambda i: [_chunk(content="x"), _call(index=i, id=f"c{i}")],
    "calls named like blocks": lambda i: [_chunk(content="x"), _call(index=i, id=str(2 * i + 1))],
    "pieces of input": lambda i: [
        _chunk(tool_calls=[{"index": 0, "id": None if i else "a", "function": {"arguments": "1,"}}])
        if i
        else _call("[", index=0, id="a")
    ],
    "pieces of input with the name": lambda i: [_call('{"a":[' if not i else "1}", index=0, id="a")],
    "whole inputs with the name": lambda i: [_call('{"a":1' if not i else '{"a":1}', index=0, id="a")],
    "pieces of a name": lambda i: [_call("", name="abc", index=0, id="a")],
    "annotations": lambda i: [_chunk(annotations=[_page(i)])],
    "citations": lambda i: [{"id": "c", "citations": [f"http://x/{i}"], "choices": []}],
    "usage keys": lambda i: [{"id": "c", "choices": [], "usage": {f"k{i}": "x" * 20}}],
    "choices": lambda i: [{"id": "c", "choices": [{"index": i, "delta": {"content": "x"}}]}],
    "keys beside the answer": lambda i: [{"id": "c", "choices": [], f"k{i}": "x" * 20}],
    "logprobs": lambda i: [
        {"id": "c", "choices": [{"delta": {"content": "x"}, "logprobs": {"content": [{"token": "x"}]}}]}
    ],
    "parts": lambda i: [
        _chunk(content=[{"type": "text", "text": "x"}, {"type": "thinking", "thinking": "y"}])
    ],
    "audio": lambda i: [_chunk(audio={"id": "a", "data": "QUJD", "transcript": "x"})],
    "images": lambda i: [_chunk(images=[{"image_url": {"url": f"http://x/{i}"}}])],
    "details": lambda i: [_chunk(reasoning_details=[{"type": "reasoning.text", "text": "x", "index": 0}])],
    "details of new ids": lambda i: [
        _chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "x", "id": f"r{i}", "index": i}])
    ],
    "details between texts": lambda i: [
        _chunk(reasoning_details=[{"type": "reasoning.text", "text": "x", "id": f"r{i}"}]),
        _chunk(content="x"),
    ],
    "opaque reasoning": lambda i: [_chunk(reasoning_opaque=f"o{i}", reasoning_text="x"), _chunk(content="x")],
    "tools that were executed": lambda i: [
        _chunk(executed_tools=[{"index": i, "type": "search", "arguments": "{}", "output": "x"}])
    ],
    "executed tools of one index": lambda i: [
        _chunk(executed_tools=[{"index": 0, "type": "search", "arguments": "{}", "output": "x"}])
    ],
    "defects": lambda i: [_chunk(content=7)],
}

TAGS: dict[str, Turn] = {
    "think tags": lambda i: [_chunk(content="<think>x</think>y")],
    "halves of tags": lambda i: [_chunk(content="<thi")],
    "blank text": lambda i: [_chunk(content="\n")],
}

MISTRAL: dict[str, Turn] = {
    **{name: CHAT[name] for name in CHAT if name.startswith(("calls", "pieces", "whole", "text", "usage"))},
    "references": lambda i: [_chunk(content=[{"type": "reference", "reference_ids": [i]}])],
    "tool references": lambda i: [
        _chunk(content=[{"type": "tool_reference", "tool": "web", "title": "t", "url": f"http://x/{i}"}])
    ],
    "thoughts": lambda i: [
        _chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]}]),
        _chunk(content="y"),
    ],
    "metadata keys": lambda i: [_chunk(metadata={f"k{i}": "x" * 20})],
    "logprobs": CHAT["logprobs"],
    "files": lambda i: [_chunk(content=[{"type": "image_url", "image_url": f"http://x/{i}"}])],
}


# the Messages API


def _block(i: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": i, "content_block": {"type": kind, **fields}}


def _delta(i: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": i, "delta": {"type": kind, **fields}}


def _stop(i: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": i}


_MESSAGE = {"type": "message_start", "message": {"id": "m", "content": [], "model": "m", "usage": {}}}


def _use(i: int, call_id: str) -> dict[str, Any]:
    return _block(i, "tool_use", id=call_id, name="f", input={})


def _cited(i: int) -> dict[str, Any]:
    return {"type": "web_search_result_location", "url": f"http://x/{i}", "title": "t", "cited_text": "x"}


CLAUDE: dict[str, Turn] = {
    "text blocks": lambda i: [_block(i, "text", text=""), _delta(i, "text_delta", text="x"), _stop(i)],
    "text blocks of one index": lambda i: [_block(0, "text", text="x"), _stop(0)],
    "open text blocks": lambda i: [_block(i, "text", text="x")],
    "open thoughts": lambda i: [_block(i, "thinking", thinking="x")],
    "calls": lambda i: [_use(i, f"t{i}"), _delta(i, "input_json_delta", partial_json="{}"), _stop(i)],
    "calls of one id": lambda i: [_use(i, "t"), _delta(i, "input_json_delta", partial_json="{}"), _stop(i)],
    "calls without input": lambda i: [_use(i, f"t{i}"), _stop(i)],
    "open calls": lambda i: [_use(i, f"t{i}")],
    "pieces of input": lambda i: [
        _use(0, "t") if not i else _delta(0, "input_json_delta", partial_json="1,")
    ],
    "citations": lambda i: [
        _block(0, "text", text="") if not i else _delta(0, "citations_delta", citation=_cited(i))
    ],
    "searches": lambda i: [
        _block(i, "server_tool_use", id=f"s{i}", name="web_search", input={"query": "x"}),
        _stop(i),
        _block(-i - 1, "web_search_tool_result", tool_use_id=f"s{i}", content=[]),
        _stop(-i - 1),
    ],
    "hits": lambda i: [
        _block(
            i,
            "web_search_tool_result",
            tool_use_id=f"s{i}",
            content=[{"type": "web_search_result", "url": f"http://x/{i}"}],
        )
    ],
    "usage keys": lambda i: [{"type": "message_delta", "delta": {}, "usage": {f"k{i}": "x" * 20}}],
    "signatures": lambda i: [
        _block(0, "thinking", thinking="") if not i else _delta(0, "signature_delta", signature="x" * 20)
    ],
    "pieces of a block unknown": lambda i: [
        _block(0, "compaction") if not i else _delta(0, "compaction_delta", content="x" * 20)
    ],
    "deltas without a block": lambda i: [_delta(i, "input_json_delta", partial_json="x")],
    "texts without a block": lambda i: [_delta(i, "text_delta", text="x")],
}


# Converse


def _converse(name: str, i: int, **members: Any) -> dict[str, Any]:
    return {f"contentBlock{name}": {"contentBlockIndex": i, **members}}


def _converse_call(i: int, call_id: str) -> list[Any]:
    return [_converse("Start", i, start={"toolUse": {"toolUseId": call_id, "name": "f"}})]


CONVERSE: dict[str, Turn] = {
    "text blocks": lambda i: [_converse("Delta", i, delta={"text": "x"}), _converse("Stop", i)],
    "text blocks of one index": lambda i: [_converse("Delta", 0, delta={"text": "x"}), _converse("Stop", 0)],
    "open text blocks": lambda i: [_converse("Delta", i, delta={"text": "x"})],
    "text and reasoning": lambda i: [
        _converse("Delta", 2 * i, delta={"text": "x"}),
        _converse("Delta", 2 * i + 1, delta={"reasoningContent": {"text": "x"}}),
    ],
    "calls": lambda i: [
        *_converse_call(i, f"t{i}"),
        _converse("Delta", i, delta={"toolUse": {"input": "{}"}}),
        _converse("Stop", i),
    ],
    "calls of one id": lambda i: [
        *_converse_call(i, "t"),
        _converse("Delta", i, delta={"toolUse": {"input": "{}"}}),
        _converse("Stop", i),
    ],
    "open calls": lambda i: _converse_call(i, f"t{i}"),
    "calls without input": lambda i: [*_converse_call(i, f"t{i}"), _converse("Stop", i)],
    "citations": lambda i: [
        _converse("Delta", 0, delta={"text": "x"}),
        _converse(
            "Delta", 0, delta={"citation": {"title": "t", "location": {"web": {"url": f"http://{i}"}}}}
        ),
    ],
    "citations without a text": lambda i: [
        _converse(
            "Delta", i, delta={"citation": {"title": "t", "location": {"web": {"url": f"http://{i}"}}}}
        ),
    ],
    "signatures": lambda i: [_converse("Delta", 0, delta={"reasoningContent": {"signature": f"{i:020}"}})],
    "redacted": lambda i: [_converse("Delta", 0, delta={"reasoningContent": {"redactedContent": "QUJD"}})],
    "results": lambda i: [
        _converse("Start", i, start={"toolResult": {"toolUseId": f"t{i}"}}),
        _converse("Delta", i, delta={"toolResult": [{"text": "x"}]}),
        _converse("Stop", i),
    ],
    "deltas without a block": lambda i: [_converse("Delta", i, delta={"toolUse": {"input": "x"}})],
    "usage keys": lambda i: [{"metadata": {"usage": {f"k{i}": "x" * 20}}}],
    "metadata keys": lambda i: [{"metadata": {f"k{i}": {"x": "x" * 20}}}],
}


# Gemini


def _parts(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **fields}]}


def _function(i: int, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "f", **fields}}


GEMINI: dict[str, Turn] = {
    "text and thoughts": lambda i: [_parts({"text": "x"}), _parts({"text": "y", "thought": True})],
    "calls": lambda i: [_parts(_function(i, args={"a": 1}))],
    "calls of one id": lambda i: [_parts(_function(i, args={"a": 1}, id="c"))],
    "calls that stream": lambda i: [
        _parts(
            _function(i, id=f"c{i}", partialArgs=[{"jsonPath": "$.a", "stringValue": "x"}], willContinue=True)
        )
    ],
    "calls that stream by turns": lambda i: [
        _parts(
            _function(
                i, id=f"c{i}", partialArgs=[{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}]
            )
        ),
        _parts(
            {
                "functionCall": {
                    "id": "c0",
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
                    "willContinue": True,
                }
            }
        ),
    ],
    "pieces of a string": lambda i: [
        _parts(
            {
                "functionCall": {
                    **({} if i else {"name": "f"}),
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}],
                    "willContinue": True,
                }
            }
        )
    ],
    "values of a list": lambda i: [
        _parts(
            {
                "functionCall": {
                    **({} if i else {"name": "f"}),
                    "partialArgs": [{"jsonPath": f"$.a[{i}]", "numberValue": 1}],
                    "willContinue": True,
                }
            }
        )
    ],
    "fields of an input": lambda i: [
        _parts(
            {
                "functionCall": {
                    **({} if i else {"name": "f"}),
                    "partialArgs": [{"jsonPath": f"$.a{i}", "numberValue": 1}],
                    "willContinue": True,
                }
            }
        )
    ],
    "signatures": lambda i: [_parts({"text": "", "thoughtSignature": "QUJD"})],
    "signed thoughts": lambda i: [_parts({"text": "x", "thought": True, "thoughtSignature": "QUJD"})],
    "code and results": lambda i: [
        _parts({"executableCode": {"language": "PYTHON", "code": "1"}}),
        _parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
    ],
    "files": lambda i: [_parts({"inlineData": {"mimeType": "image/png", "data": "QUJD"}})],
    "unknown parts": lambda i: [_parts({f"k{i}": {"x": 1}})],
    "grounding": lambda i: [
        _parts(groundingMetadata={"groundingChunks": [{"web": {"uri": f"http://x/{i}", "title": "t"}}]})
    ],
    "grounding keys": lambda i: [_parts({"text": "x"}, groundingMetadata={f"k{i}": "x" * 20})],
    "candidate keys": lambda i: [_parts({"text": "x"}, **{f"k{i}": "x" * 20})],
    "usage keys": lambda i: [{"usageMetadata": {f"k{i}": "x" * 20}}],
    "usage keys beside text": lambda i: [{**_parts({"text": "x"}), "usageMetadata": {f"k{i}": "x" * 20}}],
    "usage keys of nothing": lambda i: [{"usageMetadata": {f"k{i}": None}}],
    "reasons": lambda i: [_parts({"text": "x"}, finishReason="STOP")],
    "candidates": lambda i: [_parts({"text": "x"}, index=i)],
    "logprobs": lambda i: [_parts({"text": "x"}, logprobsResult={"chosenCandidates": [{"token": "x"}]})],
    "tool calls of the vendor": lambda i: [
        _parts({"toolCall": {"id": f"t{i}", "toolType": "GOOGLE_SEARCH", "args": {}}}),
        _parts({"toolResponse": {"id": f"t{i}", "toolType": "GOOGLE_SEARCH", "response": {}}}),
    ],
}


# Interactions


def _step(i: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": i, "step": {"type": kind, **fields}}


def _grown(i: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": i, "delta": {"type": kind, **fields}}


def _ended(i: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": i, **fields}


INTERACTIONS: dict[str, Turn] = {
    "outputs": lambda i: [_step(i, "model_output"), _grown(i, "text", text="x"), _ended(i)],
    "outputs of one index": lambda i: [_step(0, "model_output"), _grown(0, "text", text="x"), _ended(0)],
    "open outputs": lambda i: [_step(i, "model_output"), _grown(i, "text", text="x")],
    "thoughts": lambda i: [
        _step(i, "thought"),
        _grown(i, "thought_summary", content={"type": "text", "text": "x"}),
        _ended(i),
    ],
    "calls": lambda i: [_step(i, "function_call", id=f"c{i}", name="f", arguments={"a": 1}), _ended(i)],
    "calls of one id": lambda i: [_step(i, "function_call", id="c", name="f", arguments={"a": 1}), _ended(i)],
    "open calls": lambda i: [_step(i, "function_call", id=f"c{i}", name="f")],
    "pieces of input": lambda i: [
        _step(0, "function_call", id="c", name="f") if not i else _grown(0, "arguments_delta", arguments="1,")
    ],
    "ends of a call that goes on": lambda i: [
        _step(0, "function_call", id="c", name="f")
        if not i
        else _grown(0, "arguments_delta", arguments="1,"),
        _ended(0),
    ],
    "annotations": lambda i: [
        _step(0, "model_output")
        if not i
        else _grown(
            0, "text_annotation_delta", annotations=[{"type": "url_citation", "url": f"http://x/{i}"}]
        )
    ],
    "searches": lambda i: [
        _step(2 * i, "google_search_call", id=f"s{i}", arguments={"queries": ["x"]}),
        _ended(2 * i),
        _step(2 * i + 1, "google_search_result", call_id=f"s{i}", result=[{"url": f"http://x/{i}"}]),
        _ended(2 * i + 1),
    ],
    "fields of a step unknown": lambda i: [
        _step(0, "mystery") if not i else _grown(0, "mystery", **{f"k{i}": "x" * 20})
    ],
    "pieces of a recording": lambda i: [
        _step(0, "model_output")
        if not i
        else _grown(0, "audio", data="QUJD", mime_type="audio/pcm", **{f"k{i}": "x"})
    ],
    "usage keys": lambda i: [
        {"event_type": "interaction.status_update", "status": "in_progress", "usage": {f"k{i}": "x" * 20}}
    ],
    "usage of steps": lambda i: [_step(i, "model_output"), _ended(i, step_usage={"total_tokens": 1})],
    "errors of outputs": lambda i: [_step(i, "model_output", error={"code": 1, "message": "x"}), _ended(i)],
    "deltas without a step": lambda i: [_grown(i, "arguments_delta", arguments="x")],
}


# Responses


def _item(i: int, done: bool, **item: Any) -> dict[str, Any]:
    kind = "done" if done else "added"
    return {"type": f"response.output_item.{kind}", "output_index": i, "item": item}


def _of(i: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": i, "item_id": f"i{i}", **fields}


def _message(i: int, done: bool, item_id: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "x"}] if done else []
    return _item(i, done, type="message", id=item_id, role="assistant", content=content)


def _called(i: int, done: bool, call_id: str) -> dict[str, Any]:
    arguments = "{}" if done else ""
    return _item(i, done, type="function_call", id=f"i{i}", call_id=call_id, name="f", arguments=arguments)


RESPONSES: dict[str, Turn] = {
    "messages": lambda i: [
        _message(i, False, f"i{i}"),
        _of(i, "output_text.delta", content_index=0, delta="x"),
        _message(i, True, f"i{i}"),
    ],
    "messages of one id": lambda i: [
        _message(0, False, "m"),
        _of(0, "output_text.delta", content_index=0, delta="x"),
        _message(0, True, "m"),
    ],
    "texts at new places": lambda i: [
        {
            "type": "response.output_text.delta",
            "output_index": i,
            "item_id": "m",
            "content_index": i,
            "delta": "x",
        }
    ],
    "open messages": lambda i: [_message(i, False, f"i{i}")],
    "calls": lambda i: [
        _called(i, False, f"c{i}"),
        _of(i, "function_call_arguments.delta", delta="{}"),
        _called(i, True, f"c{i}"),
    ],
    "calls of one id": lambda i: [_called(i, False, "c"), _called(i, True, "c")],
    "open calls of one id": lambda i: [_called(i, False, "c")],
    "calls between texts": lambda i: [
        _message(2 * i, False, f"i{2 * i}"),
        _of(2 * i, "output_text.delta", content_index=0, delta="x"),
        _called(2 * i + 1, False, f"c{i}"),
    ],
    "pieces of input": lambda i: [
        _called(0, False, "c") if not i else _of(0, "function_call_arguments.delta", delta="1,")
    ],
    "ends of an input": lambda i: [
        _called(0, False, "c") if not i else _of(0, "function_call_arguments.delta", delta="1,"),
        _of(0, "function_call_arguments.done", arguments=""),
    ],
    "ends of the input of an MCP call": lambda i: [
        _item(0, False, type="mcp_call", id="i0", name="f", server_label="s", arguments="")
        if not i
        else _of(0, "mcp_call_arguments.delta", delta="1,"),
        _of(0, "mcp_call_arguments.done", arguments=""),
    ],
    "annotations": lambda i: [
        _of(0, "output_text.delta", content_index=0, delta="x"),
        _of(0, "output_text.annotation.added", annotation={"type": "url_citation", "url": f"http://x/{i}"}),
    ],
    "summaries": lambda i: [
        _item(0, False, type="reasoning", id="i0", summary=[])
        if not i
        else _of(0, "reasoning_summary_text.delta", summary_index=i, delta="x")
    ],
    "reasoning items": lambda i: [
        _item(i, True, type="reasoning", id=f"r{i}", summary=[], encrypted_content="x")
    ],
    "reasoning items of one place": lambda i: [
        _item(0, True, type="reasoning", id=f"r{i}", summary=[], encrypted_content="x")
    ],
    "refusals": lambda i: [_of(i, "refusal.delta", content_index=0, delta="x")],
    "logprobs": lambda i: [
        _of(0, "output_text.delta", content_index=0, delta="x", logprobs=[{"token": "x", "logprob": -1}])
    ],
    "searches": lambda i: [
        _item(i, False, type="web_search_call", id=f"i{i}", status="in_progress"),
        _of(i, "web_search_call.searching"),
        _item(
            i,
            True,
            type="web_search_call",
            id=f"i{i}",
            status="completed",
            action={"type": "search", "query": "x", "sources": [{"type": "url", "url": f"http://x/{i}"}]},
        ),
    ],
    "inputs without a call": lambda i: [_of(i, "function_call_arguments.delta", delta="x")],
    "drafts of a picture": lambda i: [
        _item(0, False, type="image_generation_call", id="i0", status="in_progress")
        if not i
        else _of(0, "image_generation_call.partial_image", partial_image_b64="QUJD", partial_image_index=i)
    ],
    "thoughts": lambda i: [{"type": "response.reasoning.started", "thought": "x"}],
    "unknown items": lambda i: [_item(i, True, type="mystery", id=f"i{i}", **{f"k{i}": 1})],
    "shell commands": lambda i: [
        _item(0, False, type="shell_call", id="i0", call_id="c", action={})
        if not i
        else _of(0, "shell_call_command.delta", command_index=i, delta="x")
    ],
}


# Cohere


def _said(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}


def _cohere_call(i: int, call_id: str, arguments: str = "{}") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return _said("tool-call-start", i, tool_calls=call)


COHERE: dict[str, Turn] = {
    "texts": lambda i: [
        _said("content-start", i, content={"type": "text", "text": "x"}),
        {"type": "content-end", "index": i},
    ],
    "texts of one index": lambda i: [
        _said("content-start", 0, content={"type": "text", "text": "x"}),
        {"type": "content-end", "index": 0},
    ],
    "open texts": lambda i: [_said("content-start", i, content={"type": "text", "text": "x"})],
    "calls": lambda i: [_cohere_call(i, f"c{i}"), {"type": "tool-call-end", "index": i}],
    "calls of one id": lambda i: [_cohere_call(i, "c"), {"type": "tool-call-end", "index": i}],
    "open calls": lambda i: [_cohere_call(i, f"c{i}", "{")],
    "calls without a whole input": lambda i: [
        _cohere_call(i, f"c{i}", "{"),
        {"type": "tool-call-end", "index": i},
    ],
    "calls named like blocks": lambda i: [
        _cohere_call(i, str(2 * i + 1)),
        {"type": "tool-call-end", "index": i},
        _said("content-delta", 0, content={"text": "x"}),
    ],
    "pieces of input": lambda i: [
        _cohere_call(0, "c", "[")
        if not i
        else _said("tool-call-delta", 0, tool_calls={"function": {"arguments": "1,"}})
    ],
    "blank pieces of input": lambda i: [
        _cohere_call(0, "c", "")
        if not i
        else _said("tool-call-delta", 0, tool_calls={"function": {"arguments": " " * 20}})
    ],
    "plans": lambda i: [
        _said("tool-plan-delta", tool_plan="x"),
        _said("content-delta", 0, content={"text": "y"}),
    ],
    "citations": lambda i: [
        _said(
            "citation-start",
            i,
            citations={
                "start": 0,
                "end": 1,
                "text": "x",
                "sources": [{"type": "document", "id": f"d{i}", "document": {"url": f"http://x/{i}"}}],
            },
        )
    ],
    "logprobs": lambda i: [
        {**_said("content-delta", 0, content={"text": "x"}), "logprobs": {"text": "x", "token_ids": [1]}}
    ],
    "deltas without a call": lambda i: [
        _said("tool-call-delta", i, tool_calls={"function": {"arguments": "1,"}})
    ],
}


# Ollama


def _said_by(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


OLLAMA: dict[str, Turn] = {
    "text and thinking": lambda i: [_said_by(content="x"), _said_by(thinking="y")],
    "calls": lambda i: [_said_by(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}])],
    "calls of one id": lambda i: [
        _said_by(tool_calls=[{"id": "c", "function": {"name": "f", "arguments": {}}}])
    ],
    "calls named like blocks": lambda i: [
        _said_by(content="x"),
        _said_by(tool_calls=[{"id": str(2 * i + 1), "function": {"name": "f", "arguments": {}}}]),
    ],
    "images": lambda i: [_said_by(images=["QUJD"])],
    "logprobs": lambda i: [{**_said_by(content="x"), "logprobs": [{"token": "x", "logprob": -1}]}],
}


def _floods(provider: str, turns: dict[str, Turn], head: list[Any] = []) -> list[Flood]:
    return [Flood(provider, name, head, turn) for name, turn in turns.items()]


FLOODS: list[Flood] = [
    *_floods("openai", CHAT),
    *_floods("openrouter", {name: CHAT[name] for name in CHAT if name.startswith(("details", "annot"))}),
    *_floods("sambanova", TAGS),
    *_floods("ollama", OLLAMA),
    *_floods("mistral", MISTRAL),
    *_floods("anthropic", CLAUDE, [_MESSAGE]),
    *_floods("bedrock", CONVERSE, [{"messageStart": {"role": "assistant"}}]),
    *_floods("google", GEMINI),
    *_floods("google-interactions", INTERACTIONS, [{"event_type": "interaction.created", "interaction": {}}]),
    *_floods(
        "openai-responses", RESPONSES, [{"type": "response.created", "response": {"id": "r", "model": "m"}}]
    ),
    *_floods("cohere", COHERE, [{"type": "message-start", "id": "m", "delta": {"message": {}}}]),
]
