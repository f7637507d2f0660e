"""Encodes messages as the system instruction and the contents of a Gemini request.

Neighbours of one role become one content. The results of a turn's calls are in call order in a content of
their own; each call has exactly one result there, or the API refuses the request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    own_values,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.gemini.wire import CODE_EXECUTION
from llmstream.dialects.google import KEY, SIDE_FIELDS, TRANSCRIPTION
from llmstream.dialects.history_parts import is_minted, own_parts, result_text, role_of, system_text
from llmstream.dialects.json_text import object_text
from llmstream.dialects.media import media_of
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.written import Carry, in_turns, write
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.model_rules.gemini import GeminiRules

__all__ = ["Conversation", "camel", "read_response"]


# Single parts of a conversation; a signature goes back on the part it came with.


def camel(name: str) -> str:
    """Converts a field name to the wire's form: `tool_type` is `toolType`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


class PartWriter:
    """Encodes parts; those that the API does not support are left out with a warning."""

    def __init__(self, *, provider: str, vertex: bool, rules: GeminiRules, warnings: RequestWarnings) -> None:
        self._provider = provider
        self._vertex = vertex
        self._rules = rules
        self._warn = warnings.note_once

    def user_part(self, part: Part) -> dict[str, Any] | None:
        """Encodes a part of the user's turn; None if it is left out.

        raises: Unsupported for media that cannot be sent
        """
        match part:
            case Text(text=text):
                return {"text": text, **_side_fields(part)} if text else None
            case Image() | Audio() | Document() | File():
                return self.media(part)
            case Source():
                return None
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return _custom(part)
        self._left_out(part)
        return None

    def model_part(self, part: Part) -> dict[str, Any] | None:
        """Encodes a part of the model's turn; None if it is left out."""
        match part:
            case Text() | Reasoning():
                return self._prose(part)
            case ToolCall():
                return self._vendor_call(part) if part.provider_executed else self._call(part)
            case ToolResult():
                return self._vendor_result(part)
            case File():
                return self._file(part)
            case Image() | Audio() | Document():
                return self.media(part)
            case Source():
                # A source is metadata of a text, and only for the reader.
                return None
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return _custom(part)
        self._left_out(part)
        return None

    def media(self, part: Image | Audio | Document | File) -> dict[str, Any]:
        """Encodes bytes as `inlineData`, a URI as `fileData`.

        raises: Unsupported
        """
        media = media_of(part, fetches_urls=self._rules.fetches_urls, provider=self._provider)
        if media.url is None:
            data = base64.b64encode(media.data or b"").decode()
            return {"inlineData": {"mimeType": media.media_type, "data": data}, **_side_fields(part)}
        if self._vertex and not media.media_type:
            raise Unsupported(
                f"the media type of {media.url!r} is unknown, and Vertex AI requires it. Set media_type.",
                provider=self._provider,
            )
        kind = {"mimeType": media.media_type} if media.media_type else {}
        return {"fileData": {**kind, "fileUri": media.url}, **_side_fields(part)}

    def id_of(self, call_id: str) -> dict[str, str]:
        """Returns the field `id`, if it is sent: Vertex AI refuses it, and does not know an id made here."""
        return {} if self._vertex or is_minted(call_id) else {"id": call_id}

    def _prose(self, part: Text | Reasoning) -> dict[str, Any] | None:
        side = _side_fields(part)
        # A signature may ride on an empty part, and has to be sent back.
        if not part.text and "thoughtSignature" not in side:
            return None
        thought = {"thought": True} if isinstance(part, Reasoning) else {}
        return {"text": part.text, **thought, **side}

    def _call(self, part: ToolCall) -> dict[str, Any]:
        args = object_text(part.arguments, key="input")
        return {
            "functionCall": {**self.id_of(part.id), "name": part.name, "args": args},
            **_side_fields(part),
        }

    def _vendor_call(self, part: ToolCall) -> dict[str, Any] | None:
        args = object_text(part.arguments, key="input")
        own = _own_metadata(part)
        if part.name == CODE_EXECUTION and b'"code"' in bytes(args):
            code = {**msgspec.json.decode(args), **self.id_of(part.id)}
            return {"executableCode": code, **_side_fields(part)}
        if own.get("tool_type"):
            call = {"toolType": own["tool_type"], **self.id_of(part.id), "args": args}
            return {"toolCall": call, **_side_fields(part)}
        self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
        return None

    def _vendor_result(self, part: ToolResult) -> dict[str, Any] | None:
        own = _own_metadata(part)
        if isinstance(part.result, dict) and "outcome" in part.result:
            return {
                "codeExecutionResult": {**part.result, **self.id_of(part.tool_call_id)},
                **_side_fields(part),
            }
        if own.get("tool_type"):
            response = {"toolType": own["tool_type"], **self.id_of(part.tool_call_id)}
            return {"toolResponse": {**response, "response": part.result}, **_side_fields(part)}
        self._warn(f"the result of {part.tool_call_id!r}, which another vendor ran, was left out")
        return None

    def _file(self, part: File) -> dict[str, Any] | None:
        """Encodes a file that the model made: the next turn may edit it. Drafts are thoughts."""
        try:
            written = self.media(part)
        except Unsupported as error:
            self._warn(f"a file of type {part.media_type!r} was left out: {error.message}")
            return None
        if own_values(part.metadata).get("reasoning"):
            written["thought"] = True
        return written

    def _left_out(self, part: Part) -> None:
        self._warn(f"a part of kind {part_kind(part)!r} was left out: the API does not support it")


def _own_metadata(part: Any) -> dict[str, Any]:
    """Returns this vendor's metadata of a part."""
    return dict((part.metadata or {}).get(KEY, {}))


def _side_fields(part: Any) -> dict[str, Any]:
    own = _own_metadata(part)
    return {camel(name): own[name] for name in SIDE_FIELDS if name in own}


def _custom(part: Custom) -> dict[str, Any] | None:
    """Encodes a part that only this vendor knows, unchanged; None for a kind that only responses have."""
    own = _own_metadata(part)
    if part.type == f"{KEY}.{TRANSCRIPTION}":
        return None
    side = _side_fields(part)
    inner = {key: value for key, value in own.items() if key not in SIDE_FIELDS}
    return {camel(part.type.removeprefix(f"{KEY}.")): inner, **side}


# The result of a function as the object that the wire requires, and back.
#
# `{"output": ...}` and `{"error": ...}` hold output or error; any other object is the output itself.
# source: FunctionResponse in the references of the Gemini API and of Vertex AI


def encode_response(part: ToolResult) -> dict[str, Any]:
    """Returns the field `response`; one that the metadata has is returned unchanged."""
    own = (part.metadata or {}).get(KEY, {}).get("response")
    if isinstance(own, dict):
        return own
    return _plain(result_text(part), part.is_error)


def read_response(response: dict[str, Any]) -> tuple[str, bool, Metadata | None]:
    """Returns the content, whether it is an error, and metadata if the content alone would lose something."""
    failed = set(response) == {"error"}
    inner: Any = response["error"] if failed else response
    if set(response) == {"output"}:
        inner = response["output"]
    content = inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()
    # What the content alone gives back need not be stored twice.
    exact = _plain(content, failed) == response
    return content, failed, None if exact else {KEY: {"response": response}}


def _plain(content: str, failed: bool) -> dict[str, Any]:
    if failed:
        return {"error": content}
    value: Any = content
    if content.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(content)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            value = content
    # With one of these keys the API would read the object as a wrapper.
    if isinstance(value, dict) and not value.keys() & {"output", "error"}:
        return value
    return {"output": value}


_ROLES: Final = {
    Role.SYSTEM: "system",
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "model",
}
# Takes the place of a signature that was lost: Gemini 3 refuses a call without one.
# source: "Thought signatures" in Google's documents
_SKIP_SIGNATURE: Final = "skip_thought_signature_validator"

_OPENING: Final = "(The conversation begins with the assistant.)"
_NO_RESULT: Final = "The tool was not run."


class _Carry(Carry):
    """What messages depend on, of those before.

    system: the parts of the system instruction
    """

    system: list[dict[str, Any]] = msgspec.field(default_factory=list)


class Conversation:
    """Encodes a conversation turn by turn.

    system:   the parts of the system instruction
    contents: the turns, as the body has them: as objects or as JSON
    """

    def __init__(self, *, provider: str, vertex: bool, rules: GeminiRules, warnings: RequestWarnings) -> None:
        self.system: list[dict[str, Any]] = []
        self.contents: list[Any] = []
        self._provider = provider
        self._vertex = vertex
        self._rules = rules
        self._warnings = warnings
        self._warn = warnings.note_once
        self._writer = PartWriter(provider=provider, vertex=vertex, rules=rules, warnings=warnings)
        # Of one segment of the conversation.
        self._carry = _Carry()
        self._turns: list[dict[str, Any]] = []
        self._open_calls: list[ToolCall] = []
        self._open_ids: set[str] = set()
        self._answered: dict[str, Any] | None = None  # the latest turn of results
        self._results: dict[str, ToolResult] = {}
        self._expected_results: dict[str, int] = {}

    def read(self, messages: Sequence[Message]) -> None:
        """Encodes all messages of a conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for media
        """
        wire = (self._provider, self._vertex, self._rules)
        # The first turn of such a model also has the instructions, which may grow.
        messages = messages if self._rules.system else tuple(messages)
        self.contents, carry = write(messages, _Carry(), self._segment, *wire, warnings=self._warnings)
        self.system = carry.system.copy()
        if not self._rules.system:
            self._move_system()
        if not self.contents:
            raise InvalidRequest("the conversation is empty: the API requires at least one turn with content")

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._carry, self._turns, self._answered = carry, [], None
        self._open_calls, self._open_ids, self._results, self._expected_results = [], set(), {}, {}
        for message in messages:
            for result in message.tool_results:
                if not result.provider_executed:
                    # Counted beforehand: a call whose result never comes gets a placeholder instead.
                    self._expected_results[result.tool_call_id] = (
                        self._expected_results.get(result.tool_call_id, 0) + 1
                    )
        for message in messages:
            role = _ROLES[role_of(message)]
            for part in own_parts(message, key=KEY, provider=self._provider, warn=self._warn):
                self._part(role, part)
        self._settle()
        # The API rejects a conversation that the model begins.
        if self._turns and self._turns[0]["role"] == "model" and not carry.begun:
            self._warn("the conversation begins with the assistant: a turn of the user was put before it")
            self._turns.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
        return in_turns(self._turns, carry, "model")

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
        elif isinstance(part, ToolResult) and not part.provider_executed:
            self._result(part)
        elif role == "model" or (isinstance(part, (ToolCall, ToolResult)) and part.provider_executed):
            self._model_part(part)
        else:
            written = self._writer.user_part(part)
            if written is not None:
                self._settle()
                self._turn("user").append(written)

    def _system(self, part: Part) -> None:
        text = system_text(part, moved=bool(self._turns) or self._carry.begun, warn=self._warn)
        if text:
            self._carry.system.append({"text": text})

    def _model_part(self, part: Part) -> None:
        written = self._writer.model_part(part)
        if written is None:
            return
        if self._results or (not isinstance(part, ToolCall) and not self._expects_results()):
            self._settle()
        content = self._turn("model")
        if isinstance(part, ToolCall) and not part.provider_executed:
            # Only the first of parallel calls is signed.
            follows = bool(content) and "functionCall" in content[-1]
            if self._rules.signs_calls and not follows:
                written.setdefault("thoughtSignature", _SKIP_SIGNATURE)
            self._open_calls.append(part)
            self._open_ids.add(part.id)
        content.append(written)

    # Calls and their results.

    def _expects_results(self) -> bool:
        """Whether the result of an open call is still to come."""
        return any(self._expected_results.get(call.id) for call in self._open_calls)

    def _result(self, part: ToolResult) -> None:
        self._expected_results[part.tool_call_id] -= 1
        if part.tool_call_id in self._open_ids:
            self._results[part.tool_call_id] = part
            return
        self._settle()
        self._warn(f"the result of {part.tool_call_id!r}, which belongs to no call, was sent as text")
        text = f"Result of the tool {part.name or part.tool_call_id}: {result_text(part)}"
        self._turn("user").extend([{"text": text}, *self._files(part.parts)])

    def _settle(self) -> None:
        """Writes the results of the open calls, in call order, and closes the calls that have none."""
        calls, self._open_calls, self._open_ids = self._open_calls, [], set()
        results, self._results = self._results, {}
        if not calls:
            return
        responses: list[dict[str, Any]] = []
        files: list[dict[str, Any]] = []
        for call in calls:
            result = results.get(call.id)
            if result is None:
                self._warn(f"the call {call.id!r} has no result; it was closed with an error")
                result = ToolResult(call.id, _NO_RESULT, is_error=True)
            response: dict[str, Any] = {"name": result.name or call.name, "response": encode_response(result)}
            media = self._files(result.parts)
            inside = [part for part in media if self._rules.result_media and "inlineData" in part]
            side = [part for part in media if not (self._rules.result_media and "inlineData" in part)]
            if inside:
                response["parts"] = inside
            if side:
                files.extend([{"text": f"This belongs to the result of {call.name}:"}, *side])
            responses.append({"functionResponse": {**self._writer.id_of(call.id), **response}})
        self._answered = {"role": "user", "parts": responses}
        self._turns.append(self._answered)
        if files:
            self._turns.append({"role": "user", "parts": files})

    def _files(self, parts: Iterable[Image | Document | Audio]) -> list[dict[str, Any]]:
        return [self._writer.media(part) for part in parts]

    def _turn(self, role: str) -> list[dict[str, Any]]:
        last = self._turns[-1] if self._turns else None
        if last is None or last["role"] != role or last is self._answered:
            last = {"role": role, "parts": []}
            self._turns.append(last)
        parts: list[dict[str, Any]] = last["parts"]
        return parts

    def _move_system(self) -> None:
        """Models without a place for instructions read them at the begin of the first turn."""
        if self.system:
            text = "\n\n".join(part["text"] for part in self.system)
            if not self.contents:
                self.contents.append({"role": "user", "parts": []})
            self.contents[0]["parts"].insert(0, {"text": f"{text}\n\n"})
            self.system = []
