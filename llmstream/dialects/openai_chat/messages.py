"""A conversation as this wire has it: our messages to `messages`.

System messages stay where they are; each tool result is a message of its own; images and
files of results follow all results of a turn in a user message, since tool messages hold text.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llmstream.chats.content import (
    OWN_KEY,
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    own_values,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.history_parts import (
    FOREIGN_REASONING,
    MessageVendors,
    ShortCallIds,
    is_foreign,
    result_or_failure_text,
    role_of,
    without_custom_parts,
)
from llmstream.dialects.media import data_uri
from llmstream.dialects.openai_chat.quirks import MediaQuirks, Quirks
from llmstream.dialects.openai_chat.reasoning import joined
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.tool_calls import CUSTOM_CALL, json_input
from llmstream.dialects.written import Carry, write
from llmstream.errors import Unsupported
from llmstream.events import Metadata

__all__ = ["MessageWriter", "accepts_url", "sent_as"]


# Images, recordings and files as parts of a message's content.

_AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def own(part: object, provider: str) -> dict[str, Any]:
    """The data that a provider wants back with a part."""
    metadata = getattr(part, "metadata", None) or {}
    found: dict[str, Any] = metadata.get(provider) or {}
    return found


def accepts_url(part: Image | Audio | Document | File, quirks: MediaQuirks) -> bool:
    """Whether a part can be sent as a URL."""
    if quirks.string_only:
        # No file is accepted in any form, so downloading it would be of no use.
        return True
    if isinstance(part, Audio):
        return quirks.audio_urls or quirks.audio_formats == frozenset()
    if _is_image(part):
        return quirks.image_urls or part.url.startswith("data:")
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or "text/plain"
    return quirks.file_urls if quirks.files else not kind.startswith("text/")


def write_media(
    part: Image | Audio | Document | File, quirks: MediaQuirks, *, provider: str, own: dict[str, Any]
) -> dict[str, Any]:
    """Encodes a file as a part of the content.

    own:   the vendor's metadata of the part
    raises: Unsupported if the vendor does not accept it
    """
    if isinstance(part, Audio):
        return {"type": "input_audio", "input_audio": _audio(part, quirks, provider)}
    if _is_image(part):
        detail = {"detail": own["detail"]} if own.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": _image_url(part, quirks, provider), **detail}}
    return _document(part, quirks, provider, own.get("file_id"))


def _is_image(part: Image | Audio | Document | File) -> bool:
    return isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/"))


def _image_url(part: Image | Audio | Document | File, quirks: MediaQuirks, provider: str) -> str:
    if part.data:
        return data_uri(part.data, part.media_type or "image/png")
    if quirks.image_urls or part.url.startswith("data:"):
        return part.url
    raise Unsupported(f"{provider} accepts images as bytes only. Pass data and media_type.")


def _audio(part: Audio, quirks: MediaQuirks, provider: str) -> dict[str, Any]:
    allowed = quirks.audio_formats
    if allowed == frozenset():
        raise Unsupported(f"{provider} accepts no audio. Send a transcript instead.")
    if not part.data and not quirks.audio_urls:
        raise Unsupported(f"{provider} accepts audio as bytes only. Pass data and media_type.")
    kind = part.media_type.lower()
    name = _AUDIO_FORMATS.get(kind, kind.rpartition("/")[2])
    if not part.data:
        return {"data": part.url, "format": name}
    if allowed is not None and name not in allowed:
        raise Unsupported(
            f"{provider} accepts no audio of type {part.media_type!r}, only {', '.join(sorted(allowed))}."
        )
    data = base64.b64encode(part.data).decode()
    return {"data": f"data:;base64,{data}" if quirks.audio_urls else data, "format": name}


def _document(
    part: Image | Document | File, quirks: MediaQuirks, provider: str, file_id: object
) -> dict[str, Any]:
    name = getattr(part, "filename", "")
    kind = part.media_type or "application/pdf"
    if file_id:
        return {"type": "file", "file": {"file_id": file_id}}
    # Few servers take files, and none needs to: the model reads text as text.
    if part.data and kind.startswith("text/"):
        return {"type": "text", "text": part.data.decode("utf-8", "replace")}
    if not quirks.files:
        raise Unsupported(f"{provider} accepts no files of type {kind!r}. Send the text, or pages as images.")
    if not part.data and not quirks.file_urls:
        raise Unsupported(f"{provider} accepts documents as bytes only. Pass data and media_type.")
    data = data_uri(part.data, kind) if part.data else part.url
    # OpenAI requires a name beside the bytes of a file.
    name = name or f"document{mimetypes.guess_extension(kind) or ''}"
    return {"type": "file", "file": {"filename": name, "file_data": data}}


# Which reasoning of earlier responses goes back to the server, and under which name.
#
# A provider's quirks have what its server requires. For an unknown server, a request that was read from
# the wire shows it: reasoning goes back in the fields in which that request had it. They are stored in the
# metadata of the reasoning: `{"llmstream": {"sent_as": {PROVIDER: [FIELD]}}}`.

_SENT_AS: Final = "sent_as"
_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")


def sent_as(provider: str, message: Mapping[str, Any]) -> tuple[str, Metadata]:
    """Returns the reasoning in the text fields of a message, and its mark; both empty if there is none."""
    text = next((str(message[name]) for name in _FIELDS if message.get(name)), "")
    fields = [name for name in _FIELDS if text and message.get(name) == text]
    return text, {OWN_KEY: {_SENT_AS: {provider: fields}}} if fields else {}


def fields_of_request(thoughts: Iterable[Reasoning], provider: str) -> tuple[str, ...]:
    """Returns the fields in which all this reasoning was sent to the provider before; () if they differ."""
    fields = {_fields(part, provider) for part in thoughts if part.text}
    return fields.pop() if len(fields) == 1 else ()


def _fields(part: Reasoning, provider: str) -> tuple[str, ...]:
    marks = own_values(part.metadata).get(_SENT_AS)
    names = marks.get(provider) if isinstance(marks, dict) else None
    return tuple(name for name in _FIELDS if name in names) if isinstance(names, list) else ()


# The order of messages: results as their calls.


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts results by the order of their calls, which xAI requires."""
    out: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []  # after the latest message of another role
    places: dict[str, int] = {}
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        out += _sorted(results, places)
        out.append(message)
        results = []
        places = {call["id"]: place for place, call in enumerate(message.get("tool_calls") or ())}
    return out + _sorted(results, places)


def _sorted(results: list[dict[str, Any]], places: dict[str, int]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda result: places.get(result["tool_call_id"], len(places)))


# Parts without text whose metadata goes back with the message.
_ECHOED: Final = (".reasoning_details", ".reasoning_opaque")
_UNSIGNED: Final = "reasoning of earlier answers was left out: it came without the signature that it needs"


class _Carry(Carry):
    """What messages depend on, of those before.

    read:      their number
    marked:    one of them carries a mark of the prompt cache
    short_ids: of all calls so far, if the vendor requires short ones
    """

    read: int = 0
    marked: bool = False
    short_ids: ShortCallIds | None = None


class MessageWriter:
    """Encodes the messages of one request.

    system_role: this model's name of the system role
    warnings:    of the request; those about parts that were left out are added
    marked:      something carries a mark of the prompt cache
    """

    def __init__(self, quirks: Quirks, *, provider: str, system_role: str, warnings: RequestWarnings) -> None:
        self.warnings = warnings
        self._warn = warnings.note_once
        self.marked = False
        self._quirks = quirks
        self._provider = provider
        self._system_role = system_role
        self._out: list[dict[str, Any]] = []
        self._result_files: list[tuple[str, Part]] = []
        self._short_ids: ShortCallIds | None = None
        self._last_turn = -1
        self._answered = False  # whether there are results of calls

    def write(self, messages: Sequence[Message]) -> list[Any]:
        """Returns the messages of the wire: as objects, or as their JSON if they were in the last request.

        raises: Unsupported if content would be lost, InvalidRequest for an unknown role
        """
        quirks = self._quirks
        # Such servers reject reasoning of earlier turns, and need that of the current one between its calls.
        if quirks.reasoning.echo == "current-turn":
            self._last_turn = _last_turn(messages)
        carry = _Carry(short_ids=ShortCallIds() if quirks.tools.short_call_ids else None)
        wire = (quirks, self._provider, self._system_role, self._last_turn)
        out, carry = write(messages, carry, self._segment, *wire, warnings=self.warnings, stays=_is_marked)
        self.marked = carry.marked
        return out

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._out, self._answered, self.marked = [], False, carry.marked
        self._short_ids = carry.short_ids
        if carry.short_ids is not None and not carry.short_ids.add(messages):
            return None
        for place, message in enumerate(messages, carry.read):
            for left in without_custom_parts((message,), self._warn):
                if self._result_files and message.role != Role.TOOL:
                    self._flush_result_files()
                self._message(left, in_turn=place > self._last_turn)
        self._flush_result_files()
        carry.read += len(messages)
        carry.marked = self.marked
        return in_call_order(self._out) if self._answered else self._out

    def _message(self, message: Message, *, in_turn: bool) -> None:
        role = role_of(message)
        if role == Role.SYSTEM:
            self._system(message)
        elif role == Role.USER:
            self._user(message)
        elif role == Role.ASSISTANT:
            self._assistant(message, in_turn=in_turn)
        else:
            self._results(message.parts)

    def _system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._lost(part, "a system message")
        self._out.append({"role": self._system_role, "content": self._content(message.parts)})

    def _user(self, message: Message) -> None:
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if len(parts) < len(message.parts):
            self._results(message.parts)
            self._flush_result_files()
        if parts or not message.parts:
            self._out.append({"role": "user", "content": self._content(parts)})

    def _results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            call_id = self._id(part.tool_call_id)
            self._answered = True
            self._out.append(
                {"role": "tool", "tool_call_id": call_id, "content": result_or_failure_text(part)}
            )
            self._result_files.extend((call_id, file) for file in part.parts)

    def _flush_result_files(self) -> None:
        """Writes the files of tool results as a user message, after all results of the turn."""
        # A tool message accepts only text, and all results must directly follow their calls.
        files, self._result_files = self._result_files, []
        content: list[dict[str, Any]] = []
        for call_id, file in files:
            content.append({"type": "text", "text": f"This belongs to the result of tool call {call_id}:"})
            content.append(self._part(file))
        if content:
            self._out.append({"role": "user", "content": content})

    def _assistant(self, message: Message, *, in_turn: bool) -> None:
        texts = [part for part in message.parts if isinstance(part, Text)]
        calls = [self._call(part) for part in message.tool_calls if not part.provider_executed]
        out: dict[str, Any] = {"role": "assistant", "content": self._content(texts, glue="")}
        if not texts and calls:
            # Some servers reject an empty string beside calls; null is what OpenAI sends itself.
            out["content"] = None
        echo = self._quirks.reasoning.echo
        if echo == "all" or (echo == "current-turn" and in_turn):
            self._echo(message, out)
        elif _thoughts(message):
            self._echo_again(message, out)
        if calls:
            out["tool_calls"] = calls
        for part in message.parts:
            audio_id = self._own(part).get("audio_id")
            if audio_id:
                out["audio"] = {"id": audio_id}
            elif isinstance(part, (Image, Audio, Document, File)):
                self._warn(f"a file of the assistant ({part_kind(part)}) cannot go back; it was left out")
            elif isinstance(part, ToolCall) and part.provider_executed:
                self._warn(f"the vendor's own tool call {part.name!r} cannot go back; it was left out")
            elif isinstance(part, Custom) and not part.type.endswith(_ECHOED):
                self._warn(f"a part of type {part.type!r} cannot go back; it was left out")
        self._out.append(out)

    def _echo(self, message: Message, out: dict[str, Any]) -> None:
        """Adds reasoning under the name that the vendor reads; typed details unchanged."""
        field = self._quirks.reasoning.field
        vendors = MessageVendors(message)
        thoughts = [part for part in _thoughts(message) if not is_foreign(part, vendors, self._provider)]
        if len(thoughts) < len(_thoughts(message)):
            self._warn(FOREIGN_REASONING)
        text = "".join(part.text for part in thoughts)
        if field == "think-tags":
            tagged = {"type": "text", "text": f"<think>\n{text.strip()}\n</think>\n\n"}
            content = out["content"] or ""
            if text:
                out["content"] = (
                    f"{tagged['text']}{content}" if isinstance(content, str) else [tagged, *content]
                )
            return
        if field == "reasoning_text":
            self._echo_signed(message, out, thoughts)
            return
        if text or self._quirks.reasoning.echo_empty:
            usual = "reasoning" if field == "reasoning_details" else field
            out.update(dict.fromkeys(fields_of_request(thoughts, self._provider) or (usual,), text))
        if field == "reasoning_details":
            details = joined(self._own(part).get("reasoning_details") for part in message.parts)
            if details:
                out["reasoning_details"] = details

    def _echo_signed(self, message: Message, out: dict[str, Any], thoughts: list[Reasoning]) -> None:
        """Adds Copilot's reasoning with its signature; without one, in the fields of an earlier request."""
        text = "".join(part.text for part in thoughts)
        signature = self._signature(message)
        if signature:
            out |= {"reasoning_text": text} if text else {}
            out["reasoning_opaque"] = signature
            return
        fields = fields_of_request(thoughts, self._provider)
        out.update(dict.fromkeys(fields, text))
        if text and not fields:
            self._warn(_UNSIGNED)

    def _signature(self, message: Message) -> Any:
        """Returns Copilot's last signature in a message, which has one place for it."""
        found = [self._own(part).get("reasoning_opaque") for part in message.parts]
        return next((value for value in reversed(found) if value), None)

    def _echo_again(self, message: Message, out: dict[str, Any]) -> None:
        """Adds reasoning for a server that is not known to accept it, in the fields of an earlier request."""
        thoughts = _thoughts(message)
        fields = fields_of_request(thoughts, self._provider)
        text = "".join(part.text for part in thoughts)
        out.update(dict.fromkeys(fields, text))
        if signature := self._signature(message):
            out["reasoning_opaque"] = signature
        if text and not fields:
            self._warn("reasoning of earlier answers was left out: the API does not take it back")

    def _call(self, call: ToolCall) -> dict[str, Any]:
        own = self._own(call)
        out: dict[str, Any] = {"id": self._id(call.id)}
        if own.get("type") == CUSTOM_CALL:
            custom = {"name": call.name, "input": own.get("input", call.arguments)}
            out |= {"type": "custom", "custom": custom}
        else:
            arguments = json_input(call.arguments, call.metadata)
            out |= {"type": "function", "function": {"name": call.name, "arguments": arguments}}
        self.marked = self.marked or bool(own.get("cache_control"))
        return out | {name: own[name] for name in ("extra_content", "cache_control") if own.get(name)}

    def _id(self, call_id: str) -> str:
        """Returns an id in the form that the vendor accepts; the same for call and result."""
        if self._short_ids is not None:
            return self._short_ids[call_id]
        longest = self._quirks.tools.max_call_id_chars
        if longest is None or len(call_id) <= longest:
            return call_id
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()}"[:longest]

    def _content(self, parts: Iterable[Part], glue: str = "\n") -> str | list[dict[str, Any]]:
        """Returns one string if that loses nothing, else a list of parts."""
        parts = list(parts)
        if len(parts) == 1 and type(parts[0]) is Text and parts[0].metadata is None:
            return parts[0].text
        if all(isinstance(part, Text) and not self._own(part).get("cache_control") for part in parts):
            texts = [part.text for part in parts if isinstance(part, Text)]
            if len(texts) < 2 or self._quirks.media.string_only or not glue:
                return glue.join(texts)
        if self._quirks.media.string_only:
            other = next((part for part in parts if not isinstance(part, Text)), None)
            if other is not None:
                raise self._lost(other, "a message, which has to be text alone")
            self._warn("cache_control was left out: a message has to be text alone")
            return glue.join(part.text for part in parts if isinstance(part, Text))
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            out: dict[str, Any] = {"type": "text", "text": part.text}
        elif isinstance(part, (Image, Audio, Document, File)):
            out = write_media(part, self._quirks.media, provider=self._provider, own=self._own(part))
        else:
            raise self._lost(part, "a user message")
        if self._own(part).get("cache_control"):
            out["cache_control"] = self._own(part)["cache_control"]
            self.marked = True
        return out

    def _own(self, part: object) -> dict[str, Any]:
        return own(part, self._provider)

    def _lost(self, part: object, where: str) -> Unsupported:
        kind = part_kind(part)
        return Unsupported(f"{self._provider} does not accept a part of kind {kind!r} in {where}. Send text.")


def _last_turn(messages: Sequence[Message]) -> int:
    """Returns the index of the last user message that is sent; -1 if there is none."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == Role.USER and any(without_custom_parts((message,), lambda warning: None)):
            return place
    return -1


def _is_marked(message: dict[str, Any]) -> bool:
    """Whether a message of the wire carries a mark of the prompt cache, which its request may remove."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return any("cache_control" in part for part in (*parts, *(message.get("tool_calls") or ())))


def _thoughts(message: Message) -> list[Reasoning]:
    return [part for part in message.parts if isinstance(part, Reasoning)]
