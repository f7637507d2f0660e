"""The messages over one WebSocket of the Responses API: requests, and what the server remembers.

The server keeps the last response of a socket in memory, also where nothing is stored. A request that goes
on from it needs to say only what is new. Whether it does is proved here, item by item: everything that the
request has of the last answer has to be what the server sent. What cannot be proved goes out whole.

source: developers.openai.com/api/docs/guides/websocket-mode, read 2026-11
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from llmstream.chats.content import Part
from llmstream.dialects.openai_responses.content_parts import write_part
from llmstream.dialects.openai_responses.finish import TERMINAL
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import CONTINUING
from llmstream.dialects.openai_responses.steering import Steerings, SteerMessage, Submission
from llmstream.errors import Unsupported
from llmstream.exchange import Heard

__all__ = ["SocketRequest", "SocketTalk"]

_NOT_OVER_SOCKETS: Final = ("stream", "background")
_OF_THE_SOCKET: Final = frozenset({"previous_response_not_found", "websocket_connection_limit_reached"})
"""Codes of errors after which the same request succeeds over another socket, as a whole."""


class _Message(msgspec.Struct):
    """Of a server's message, what matters to the talk."""

    type: Any = None
    response: msgspec.Raw = msgspec.Raw()
    output_index: Any = None
    item: Any = None
    steer: Any = None
    error: Any = None


class _Response(msgspec.Struct):
    id: Any = None
    status: Any = None
    output: Any = None


class _Remembered(msgspec.Struct, frozen=True):
    """What the server has in memory: the input of the last request, as length and digest, and the answer."""

    response_id: str
    model: bytes
    count: int
    digest: bytes
    output: list[Any]


_message: Final = msgspec.json.Decoder(_Message)
_response: Final = msgspec.json.Decoder(_Response)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])


class SocketRequest:
    """A request as its HTTP body says it, field by field and undecoded.

    items: of its input; none where that is a text
    """

    def __init__(self, body: bytes) -> None:
        self.fields = _fields.decode(body)
        self.model = bytes(self.fields.get("model", b""))
        try:
            self.items = _items.decode(self.fields.get("input", b"[]"))
        except msgspec.MsgspecError:
            self.items = []


class SocketTalk:
    """The talk of one socket, one answer at a time; see `exchange.Talk`."""

    def __init__(self, quirks: Quirks, *, provider: str) -> None:
        self.at_rest = True
        self._quirks = quirks
        self._provider = provider
        self._last: _Remembered | None = None
        self._asked: _Remembered | None = None  # the request under way, with its answer as it comes
        self._response_id: str | None = None
        self._over = False
        self._done: list[tuple[int, Any]] = []  # items that are whole, with their places
        self._steerings = Steerings(provider)

    @property
    def named(self) -> bool:
        """Whether the answer under way has a name."""
        return self._response_id is not None

    def continues(self, request: SocketRequest) -> bool:
        """Whether a request goes on from the last answer."""
        return self._new_items(request) is not None

    def ask(self, request: SocketRequest) -> bytes:
        """The message that asks for an answer: with what is new, where it goes on from the last one."""
        items, new = request.items, self._new_items(request)
        last, self._last = self._last, None
        self._asked = _Remembered("", request.model, len(items), _digest(items), []) if items else None
        self._response_id, self._over, self.at_rest = None, False, False
        message: dict[str, Any] = {"type": "response.create"}
        message |= {name: value for name, value in request.fields.items() if name not in _NOT_OVER_SOCKETS}
        if new is not None and last is not None:
            message |= {"previous_response_id": last.response_id, "input": new}
        else:
            self._steerings = Steerings(self._provider)  # what waits is in the whole input too
        return msgspec.json.encode(message)

    def hear(self, message: bytes) -> Heard:
        """Takes note of a message from the server."""
        try:
            said = _message.decode(message)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return "answer"  # the decoder says what is wrong with it
        kind = said.type
        if not isinstance(kind, str):
            return "answer"
        if kind == "error":
            code = said.error.get("code") if isinstance(said.error, dict) else None
            return "moved" if code in _OF_THE_SOCKET else "answer"
        if kind == "response.output_item.done":
            place = said.output_index if isinstance(said.output_index, int) else len(self._done)
            self._done.append((place, said.item))
        elif kind == "response.created":
            self._created(said.response)
        elif kind in TERMINAL:
            self._ended(kind, said.response)
        elif kind.startswith("response.steer."):
            self._steerings.hear(kind, said.steer, said.error)
            self._rest()
        return "answer" if kind.startswith("response.") else "beside"

    def steer(self, content: list[Part]) -> Submission:
        """User input for the answer under way.

        raises: Unsupported, where this server takes none
        """
        if not self._quirks.steering:
            raise Unsupported(
                f"{self._provider} takes no input while it answers. Leave the stream and ask again.",
                provider=self._provider,
            )
        parts = [write_part(part, self._quirks, provider=self._provider) for part in content]
        items = [{"type": "message", "role": "user", "content": parts}]
        submission = Submission(items, msgspec.json.encode(SteerMessage(self._response_id or "", items)))
        self._steerings.sent(submission)
        return submission

    def _created(self, raw: msgspec.Raw) -> None:
        response = _read(raw)
        self._response_id = response.id if isinstance(response.id, str) else None
        items = self._steerings.take() if self._over or self._steerings.waiting else []
        if self._over and self._asked is not None:
            self._asked.output.extend(items)
        self._over, self._done = False, []

    def _ended(self, kind: str, raw: msgspec.Raw) -> None:
        response = _read(raw)
        self._over = True
        output = _output(response.output, self._done)
        if output is None:
            self._asked = None
        elif self._asked is not None:
            self._asked.output.extend(output)
            if kind == "response.completed" and isinstance(response.id, str):
                # A response that is not complete cannot be gone on from.
                self._last = msgspec.structs.replace(self._asked, response_id=response.id)
        self._rest()

    def _rest(self) -> None:
        self.at_rest = self._over and not self._steerings.due

    def _new_items(self, request: SocketRequest) -> list[msgspec.Raw] | None:
        """The items that the server does not have; None where it is not proved that it has the others."""
        last, items = self._last, request.items
        if last is None or last.model != request.model:
            return None
        if any(name in request.fields for name in CONTINUING):
            return None
        said = last.output + self._steerings.items  # which the server puts before the new items itself
        end = last.count + len(said)
        if len(items) <= end:
            return None
        theirs = zip(items[last.count : end], said, strict=True)
        if not all(_is_within(msgspec.json.decode(ours), item) for ours, item in theirs):
            return None
        # Last, as it is the one step that reads the whole conversation, and a pool asks many talks.
        return items[end:] if _digest(items[: last.count]) == last.digest else None


def _read(raw: msgspec.Raw) -> _Response:
    try:
        return _response.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Response()


def _output(said: object, done: list[tuple[int, Any]]) -> list[Any] | None:
    """The items of an answer; None where it is not clear which they are.

    Those that were streamed are what a conversation is made of: the last event may encrypt reasoning anew,
    or, of ChatGPT's backend, have no output at all.
    """
    output = said if isinstance(said, list) else []
    if len(output) in (0, len(done)):
        return [item for _, item in sorted(done, key=lambda each: each[0])]
    return None if done else output


def _digest(items: list[msgspec.Raw]) -> bytes:
    """Of items as they are sent: one side writes them all, so equal items are equal bytes."""
    digest = hashlib.blake2b(digest_size=32)
    for item in items:
        digest.update(item)
        digest.update(b"\n")  # JSON that we write has none
    return digest.digest()


def _is_within(ours: Any, theirs: Any) -> bool:
    """Whether all that we would send of an item is what the server sent; it may have sent more."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(name in theirs and _is_within(value, theirs[name]) for name, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_is_within, ours, theirs))
    return bool(ours == theirs)
