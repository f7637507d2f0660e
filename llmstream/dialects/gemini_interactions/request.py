"""Encodes a request for the Interactions API: settings and tools, then the messages as steps.

A user's turn is one step of contents. Each thought, output, call and result of the model is a step, and so
is each result of a function.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.base import Encoded
from llmstream.dialects.gemini_interactions.wire import CONTENT, KEY
from llmstream.dialects.google import SIDE_FIELDS, TRANSCRIPTION, refused_settings, thinking_level
from llmstream.dialects.history_parts import own_parts, result_text, role_of, system_text
from llmstream.dialects.json_text import object_text
from llmstream.dialects.media import Media, media_of, sampling_of
from llmstream.dialects.requests import (
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    described_schema,
    merged,
    name_and_description,
)
from llmstream.dialects.written import Carry, write
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, Request, ToolSpec

__all__ = [
    "FIELDS",
    "PATH",
    "Conversation",
    "encode_request",
]

PATH: Final = "/interactions"

# The revision of the wire with steps instead of contents. source: google-genai 3.4.0, which sends the same
REVISION: Final = "2026-05-20"

FIELDS: Final = FieldTable(
    Field("temperature", "temperature", low=0.0, high=2.0),
    Field("top_p", "top_p"),
    Field("top_k", "top_k"),
    Field("seed", "seed"),
    Field("stop", "stop_sequences"),
    Field("max_output_tokens", "max_output_tokens"),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request; warns about what could not be encoded.

    The complete conversation is sent each time. To continue a stored interaction, pass its id as
    `provider_options={"google": {"previous_interaction_id": ...}}` and the new turn alone; it is in
    the metadata of the last finish as `interaction_id`. An `agent` there replaces the model. With
    a `continuation_token` beside the id no input is sent: Google continues the response that it has stored.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    options = writer.options
    body = merged(_body(writer), options)
    stored = options.get("store") is not False
    if "agent" in options:
        body.pop("model", None)
    if options.get("continuation_token") and options.get("previous_interaction_id") and stored:
        body.pop("input")
    return writer.encoded(f"{PATH}?alt=sse", body, {"api-revision": REVISION})


def _body(writer: RequestWriter) -> dict[str, Any]:
    request, warnings = writer.request, writer.warnings
    rules = GEMINI.find(request.model)
    conversation = Conversation(provider=writer.provider, fetches_urls=rules.fetches_urls, warnings=warnings)
    conversation.read(request.messages)
    body: dict[str, Any] = {"model": request.model.removeprefix("models/"), "input": conversation.steps}
    if conversation.system:
        body["system_instruction"] = "\n\n".join(conversation.system)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.response_format is not None:
        wanted: dict[str, Any] = {"type": "text", "mime_type": "application/json"}
        if request.response_format.schema is not None:
            wanted["schema"] = described_schema(request.response_format)
        body["response_format"] = wanted
    settings = writer.settings(FIELDS, refused_settings(rules))
    config = {**settings, **_thinking(request.reasoning, rules, warnings)}
    choice = _tool_choice(request, warnings)
    if choice is not None:
        config["tool_choice"] = choice
    if config:
        body["generation_config"] = config
    body["stream"] = True
    return body


def _tool(tool: ToolSpec | ProviderTool) -> dict[str, Any]:
    if isinstance(tool, ProviderTool):
        named = {"name": tool.name} if tool.name else {}
        return {"type": tool.type, **named, **tool.options}
    out = {"type": "function", **name_and_description(tool)}
    if tool.input_schema:
        schema = tool.input_schema
        out["parameters"] = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    return out


def _tool_choice(request: Request, warnings: RequestWarnings) -> Any:
    choice = request.tool_choice
    specs = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    if not specs:
        if choice == "required" or isinstance(choice, NamedTool):
            warnings.note("tool_choice was left out: the request declares no functions")
        return None
    if request.settings.parallel_tool_calls is False:
        warnings.note("parallel_tool_calls was left out: the API cannot forbid several calls")
    if isinstance(choice, NamedTool):
        return {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    if choice in (None, "auto") and any(spec.strict for spec in specs):
        return "validated"
    return "any" if choice == "required" else choice


def _thinking(
    reasoning: ReasoningOptions | None, rules: GeminiRules, warnings: RequestWarnings
) -> dict[str, Any]:
    # This wire has levels only, also for models that take a budget in generateContent.
    if reasoning is None:
        return {}
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.unsupported("reasoning", "this model does not support reasoning")
        return {}
    if reasoning.budget_tokens is not None:
        warnings.unsupported("reasoning.budget_tokens", "this API takes an effort and no budget")
    level = thinking_level(reasoning, rules, warnings)
    shown = {} if reasoning.effort == "none" else {"thinking_summaries": "auto"}
    return {**({} if level is None else {"thinking_level": level}), **shown}


_ROLES: Final = {
    Role.SYSTEM: "system",
    Role.USER: "user_input",
    Role.TOOL: "user_input",
    Role.ASSISTANT: "model_output",
}
# Metadata of generateContent, which has the same key: a conversation may have begun there.
_OF_THE_OTHER_WIRE: Final = frozenset({*SIDE_FIELDS, TRANSCRIPTION, "display_name", "tool_type", "response"})

_NO_RESULT: Final = "The tool was not run."


class _Carry(Carry):
    """What messages depend on, of those before.

    system: texts of the system instruction
    """

    system: list[str] = msgspec.field(default_factory=list)


class Conversation:
    """Encodes a conversation step by step.

    system: texts of the system instruction
    steps:  the input, as the body has it: as objects or as JSON
    """

    def __init__(self, *, provider: str, fetches_urls: bool, warnings: RequestWarnings) -> None:
        self.system: list[str] = []
        self.steps: list[Any] = []
        self._provider = provider
        self._fetches_urls = fetches_urls
        self._warnings = warnings
        self._warn = warnings.note_once
        # Of one segment of the conversation.
        self._carry = _Carry()
        self._steps: list[dict[str, Any]] = []
        self._open_calls: dict[str, ToolCall] = {}
        self._expected_results: Counter[str] = Counter()
        self._known: dict[str, str] = {}

    def read(self, messages: Sequence[Message]) -> None:
        """Encodes all messages of a conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for media
        """
        wire = (self._provider, self._fetches_urls)
        self.steps, carry = write(messages, _Carry(), self._segment, *wire, warnings=self._warnings)
        self.system = carry.system
        if not self.steps:
            raise InvalidRequest("the conversation is empty: the API requires at least one turn with content")

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any]:
        self._carry, self._steps, self._open_calls, self._known = carry, [], {}, {}
        results = (result for message in messages for result in message.tool_results)
        self._expected_results = Counter(each.tool_call_id for each in results if not each.provider_executed)
        for message in messages:
            role = _ROLES[role_of(message)]
            if role == "user_input" and self._steps and self._steps[-1]["type"] == "user_input":
                self._begin(role)
            for part in own_parts(message, key=KEY, provider=self._provider, warn=self._warn):
                self._part(role, part)
        self._close_calls()
        made = [step for step in self._steps if step.get("content") != []]
        carry.begun = carry.begun or bool(made)
        # The next answer would join this output.
        carry.unfinished = bool(made) and made[-1]["type"] == "model_output"
        return made

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
        elif isinstance(part, ToolResult) and not part.provider_executed:
            self._result(part)
        elif isinstance(part, (Reasoning, ToolCall, ToolResult)):
            step = self._step(role, part)
            if step is not None:
                self._steps.append(step)
        elif isinstance(part, Custom) and part.type.startswith(f"{KEY}.") and not _is_content(part):
            self._steps.append({"type": part.type.removeprefix(f"{KEY}."), **_own_metadata(part)})
        else:
            content = self._content(part)
            if content is not None:
                if role == "user_input":
                    self._close_calls()
                if not self._steps or self._steps[-1]["type"] != role:
                    self._begin(role)
                self._steps[-1]["content"].append(content)

    def _begin(self, role: str) -> None:
        self._steps.append({"type": role, "content": []})

    def _system(self, part: Part) -> None:
        text = system_text(part, moved=bool(self._steps) or self._carry.begun, warn=self._warn)
        if text:
            self._carry.system.append(text)

    def _content(self, part: Part) -> dict[str, Any] | None:
        match part:
            case Text(text=text):
                return {"type": "text", "text": text} if text else None
            case Image() | Audio() | Document() | File():
                return self._media(part)
            case Custom(type=kind) if _is_content(part):
                return {"type": kind.removeprefix(CONTENT), **_own_metadata(part)}
            case Source():
                return None
        self._warn(f"a part of kind {part_kind(part)!r} was left out: the API does not support it")
        return None

    def _media(self, part: Image | Audio | Document | File) -> dict[str, Any]:
        media = media_of(part, fetches_urls=self._fetches_urls, provider=self._provider)
        out: dict[str, Any] = {"type": _content_type(media, part)}
        if media.url is not None:
            out["uri"] = media.url
        else:
            out["data"] = base64.b64encode(media.data or b"").decode()
        if media.media_type:
            out["mime_type"] = media.media_type
        own = _own_metadata(part)
        if "data" in out:
            # Bytes were sent, so the vendor's URI for them is not.
            own.pop("uri", None)
        return {**out, **sampling_of(part.media_type), **own}

    def _step(self, role: str, part: Reasoning | ToolCall | ToolResult) -> dict[str, Any] | None:
        own = _own_metadata(part)
        if isinstance(part, Reasoning):
            if role != "model_output" or not (part.text or own.get("signature")):
                return None
            step: dict[str, Any] = {"type": "thought"}
            if own.get("signature"):
                step["signature"] = own["signature"]
            return {**step, "summary": [{"type": "text", "text": part.text}]} if part.text else step
        if part.provider_executed:
            return self._vendor_step(part, own)
        return self._call(part, own) if isinstance(part, ToolCall) else None

    def _call(self, part: ToolCall, own: dict[str, Any]) -> dict[str, Any]:
        self._open_calls.setdefault(part.id, part)
        self._known[part.id] = part.name
        call: dict[str, Any] = {"type": "function_call", "id": part.id, "name": part.name}
        call["arguments"] = object_text(part.arguments, key="input")
        return {**call, "signature": own["signature"]} if own.get("signature") else call

    def _vendor_step(self, part: ToolCall | ToolResult, own: dict[str, Any]) -> dict[str, Any] | None:
        if "type" not in own:
            what = part.id if isinstance(part, ToolCall) else part.tool_call_id
            self._warn(f"the tool that another vendor ran as {what!r} was left out")
            return None
        if isinstance(part, ToolCall):
            return {**own, "id": part.id, "arguments": object_text(part.arguments, key="input")}
        step = {**own, "call_id": part.tool_call_id, "result": part.result}
        return {**step, "is_error": True} if part.is_error else step

    # Results of functions.

    def _result(self, part: ToolResult) -> None:
        self._expected_results[part.tool_call_id] -= 1
        if part.tool_call_id not in self._known:
            self._warn(f"the result of {part.tool_call_id!r}, which belongs to no call, was sent as it is")
        self._open_calls.pop(part.tool_call_id, None)
        name = part.name or self._known.get(part.tool_call_id, "")
        step: dict[str, Any] = {"type": "function_result", "call_id": part.tool_call_id}
        if name:
            step["name"] = name
        step["result"] = self._result_content(part)
        self._steps.append({**step, "is_error": True} if part.is_error else step)

    def _result_content(self, part: ToolResult) -> Any:
        text = result_text(part)
        own = _own_metadata(part)
        if "result" in own:
            return own["result"]
        if not part.parts:
            return text
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for piece in part.parts:
            media = self._media(piece)
            if media["type"] != "image":
                raise Unsupported(
                    "the result of a function takes only text and images. Send the file in a user message.",
                    provider=self._provider,
                )
            content.append(media)
        return content

    def _close_calls(self) -> None:
        """Adds error results to calls that have none, before the user's next turn."""
        for call in [call for call in self._open_calls.values() if self._expected_results[call.id] <= 0]:
            self._warn(f"the call {call.id!r} has no result; it was closed with an error")
            self._result(ToolResult(call.id, _NO_RESULT, is_error=True, name=call.name))


def _is_content(part: Part) -> bool:
    """Whether a part is a custom piece of an output."""
    return isinstance(part, Custom) and part.type.startswith(CONTENT)


def _own_metadata(part: Any) -> dict[str, Any]:
    """Returns the vendor's metadata of a part, as far as it belongs to this wire."""
    own = (part.metadata or {}).get(KEY, {})
    return {name: value for name, value in own.items() if name not in _OF_THE_OTHER_WIRE}


def _content_type(media: Media, part: Image | Audio | Document | File) -> str:
    head = media.media_type.partition("/")[0]
    if head in ("image", "audio", "video"):
        return head
    return {Image: "image", Audio: "audio"}.get(type(part), "document")
