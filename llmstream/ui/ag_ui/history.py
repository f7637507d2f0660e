"""The messages of an AG-UI client as a conversation.

The client has separate messages for reasoning, for text with calls, and for each result, with results
directly after their calls. Ours are one message for each response of the model and one for each set of
results: the ids of the writer's messages, `RUN-STEP-PLACE`, identify the response. Adjacent messages of other
writers are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    OWN_KEY,
    Audio,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    own_values,
    read_base64,
    read_data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.events import merge_metadata
from llmstream.ui.ag_ui import wire
from llmstream.ui.ag_ui.messages import response_of
from llmstream.ui.ag_ui.output import unpacked

__all__ = ["ContentReader", "History"]

# Metadata key for the `encryptedValue` of other servers.
_FOREIGN: Final = "ag-ui"


class History:
    """Reads messages in order.

    allow_url: whether a file may be read from an address

    messages: the conversation; the id of the first message of each is in its metadata, as "id"
    system:   the texts of system and developer messages, which are not in `messages`
    ignored:  omitted items, as places in the request
    """

    def __init__(self, given: list[wire.Message], allow_url: Callable[[str], bool]) -> None:
        self._content = ContentReader(allow_url)
        self.messages: list[Message] = []
        self.system: list[str] = []
        self.ignored: list[str] = []
        self._names: dict[str, str] = {}  # of tools, by the id of the call
        self._cut: set[str] = set()  # calls that were cut off: they were never made
        self._answered = {message.tool_call_id for message in given if message.role == "tool"}
        self._by_provider: set[str] = set()
        self._response: tuple[Any, ...] | None = None  # the turn in progress
        self._parts: list[Part] = []
        self._results: list[ToolResult] = []
        self._id = ""
        for place, message in enumerate(given):
            self._read(message, f"messages[{place}]")
        self._end_response()

    def _read(self, message: wire.Message, where: str) -> None:
        # They belong to the sub-agent's conversation; this agent's model has its answer as a result.
        if message.subagent_run_id is not None:
            self._ignore(where, "of a sub-agent")
            return
        match message.role:
            case "assistant" | "reasoning":
                self._of_model(message, where)
            case "tool":
                self._result(message, where)
            case "user":
                self._end_response()
                parts = tuple(self._content.parts(message.content, where))
                metadata = {"id": message.id} if message.id else None
                self.messages.append(Message(message.name or "", Role.USER, parts, metadata))
            case "system" | "developer":
                # Separate from the conversation: the server decides whether a page may instruct the model.
                self.system.append(self._content.text(message.content, where))
            case role:
                self._ignore(where, f"of role {role!r}")

    def _ignore(self, where: str, why: str) -> None:
        self.ignored.append(f"{where}, {why}")

    # A response of the model, and the results of its calls.

    def _of_model(self, message: wire.Message, where: str) -> None:
        response = response_of(message.id or "")
        continues = response is not None and response == self._response
        # Other writers' messages do not identify a response: adjacent ones are merged, up to a result.
        if not continues and (self._results or response or self._response):
            self._end_response()
        self._response = response
        self._id = self._id or message.id or ""
        if message.role == "reasoning":
            metadata = _metadata(message.encrypted_value)
            text = self._content.text(message.content, where)
            if text or metadata:
                self._parts.append(Reasoning(text, metadata))
            return
        self._parts += _texts(self._content.text(message.content, where), message.encrypted_value)
        for call in message.tool_calls or ():
            self._call(call, where)

    def _call(self, call: wire.Call, where: str) -> None:
        own = own_values(call.metadata)
        if own.get("incomplete") is True or self._broke_off(call):
            self._cut.add(call.id)
            self._ignore(where, f"call {call.id!r}, which broke off")
            return
        self._names[call.id] = call.function.name
        by_provider = own.get("providerExecuted") is True
        if by_provider:
            self._by_provider.add(call.id)
        metadata = _metadata(call.encrypted_value)
        self._parts.append(
            ToolCall(call.id, call.function.name, call.function.arguments or "", by_provider, metadata)
        )

    def _broke_off(self, call: wire.Call) -> bool:
        """Whether the response broke off inside a call, of a client before 1.0: it does not keep our mark."""
        return call.id not in self._answered and not _is_object(call.function.arguments or "")

    def _result(self, message: wire.Message, where: str) -> None:
        call_id = message.tool_call_id
        if not call_id:
            raise InvalidRequest(f"{where}: a tool message needs the toolCallId that it answers")
        # The writer made this result so that the client does not run the call; the model has not made the
        # call.
        if call_id in self._cut:
            return
        own = own_values(message.metadata)
        parts = [] if isinstance(message.content, str) else list(self._content.parts(message.content, where))
        text = (
            message.content
            if isinstance(message.content, str)
            else "".join(part.text for part in parts if isinstance(part, Text))
        )
        by_provider = call_id in self._by_provider
        result = ToolResult(
            call_id,
            message.error or text,
            message.error is not None or own.get("isError") is True,
            self._names.get(call_id, ""),
            tuple([part for part in parts if isinstance(part, Image | Audio | Document)]),
            _value(text, is_json=own.get("json") is True) if by_provider else None,
            by_provider,
            merge_metadata(_metadata(message.encrypted_value), _outcome(own)),
        )
        # A vendor's calls and results are within one response.
        if by_provider:
            self._parts.append(result)
        else:
            self._results.append(result)

    def _end_response(self) -> None:
        metadata = {"id": self._id} if self._id else None
        if self._parts:
            self.messages.append(Message("", Role.ASSISTANT, tuple(self._parts), metadata))
        if self._results:
            self.messages.append(Message.tool(self._results))
        self._parts, self._results, self._response, self._id = [], [], None, ""


def _texts(text: str, encrypted: object) -> Iterator[Part]:
    """The blocks of a text, by the writer's metadata; one block if the length of the text has changed."""
    blocks = unpacked(encrypted)
    if isinstance(blocks, list) and _fit(blocks, text):
        start = 0
        for size, metadata in blocks:
            if size or metadata:
                yield Text(text[start : start + size], _checked(metadata))
            start += size
    elif text:
        yield Text(text, _metadata(encrypted) if blocks is None else None)


def _fit(blocks: list[Any], text: str) -> bool:
    """Whether they are lengths and metadata, and the lengths are those of this text."""
    pairs = [block for block in blocks if isinstance(block, list) and len(block) == 2]
    sizes = [size for size, _ in pairs if isinstance(size, int) and size >= 0]
    return len(sizes) == len(blocks) and sum(sizes) == len(text)


# Metadata: the client may send anything.


def _outcome(own: dict[str, Any]) -> Metadata | None:
    """The mark of a call that a person denied, or that was cancelled."""
    return {OWN_KEY: {"outcome": own["outcome"]}} if own.get("outcome") in ("denied", "cancelled") else None


def _metadata(encrypted: object) -> Metadata | None:
    if encrypted is None:
        return None
    found = unpacked(encrypted)
    return {_FOREIGN: {"encryptedValue": encrypted}} if found is None else _checked(found)


def _checked(metadata: object) -> Metadata | None:
    """The metadata, if it is of the form that ours has."""
    if not isinstance(metadata, dict) or not all(isinstance(own, dict) for own in metadata.values()):
        return None
    return metadata or None


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _value(text: str, *, is_json: bool) -> Any:
    if not is_json:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text


# The content of an AG-UI message: a text, or parts with files.


class ContentReader:
    """Reads content.

    allow_url: whether a file may be read from an address
    """

    def __init__(self, allow_url: Callable[[str], bool]) -> None:
        self._allow_url = allow_url

    def text(self, content: object, where: str) -> str:
        """Returns the text; other parts have no place in the message.

        where:  the place in the request, for the error
        raises: InvalidRequest for anything but text and parts
        """
        if content is None:
            return ""
        # Such as an image in a system message, which no vendor accepts.
        return "".join(part.text for part in self.parts(content, where) if isinstance(part, Text))

    def parts(self, content: object, where: str) -> Iterator[Part]:
        """Returns the parts; raises as `text`."""
        if isinstance(content, str):
            yield Text(content)
            return
        if not isinstance(content, list):
            raise InvalidRequest(f"{where}: content is a text or a list of parts")
        for place, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise InvalidRequest(f"{where}.content[{place}] is not a part with a type")
            yield self._part(part, f"{where}.content[{place}]")

    def _part(self, part: dict[str, Any], where: str) -> Part:
        kind = part["type"]
        if kind == "text" and isinstance(part.get("text"), str):
            return Text(part["text"])
        source = part if kind == "binary" else part.get("source")
        if kind not in ("image", "audio", "video", "document", "binary") or not isinstance(source, dict):
            raise InvalidRequest(
                f"{where} of type {kind!r} cannot be read. Send a text, or a file: an image, audio, video or "
                "document with a source."
            )
        media_type, url, data = self._source(source, where)
        if kind == "image" or media_type.startswith("image/"):
            return Image(url, data, media_type)
        if kind == "audio" or media_type.startswith("audio/"):
            return Audio(url, data, media_type)
        name = part.get("filename")
        return Document(url, data, media_type, name if isinstance(name, str) else "")

    def _source(self, source: dict[str, Any], where: str) -> tuple[str, str, bytes]:
        """Media type, address and bytes; also of a `binary` part, which clients before 1.0 send."""
        given = source.get("mimeType")
        media_type = given if isinstance(given, str) else ""
        match source:
            case {"type": "data", "value": str(data)} | {"type": "binary", "data": str(data)}:
                return media_type, "", read_base64(data, where)
            case {"type": "url", "value": str(url)} | {"type": "binary", "url": str(url)}:
                # Not `url.lower()`: a data URL may have megabytes.
                if url[:5].lower() == "data:":
                    found, decoded = read_data_url(url, where)
                    return media_type or found, "", decoded
                if not self._allow_url(url):
                    # Such as gs: by default; the server's own key would read it for any client that knows the
                    # name.
                    raise InvalidRequest(
                        f"{where}: files may not be read from this address. Send the file itself, or pass "
                        "ag_ui.read(allow_url=...)."
                    )
                return media_type, url, b""
        raise InvalidRequest(
            f"{where}: a file is read from a source of type data or url, with a value. Of a file that is "
            "stored at a vendor, send the bytes."
        )
