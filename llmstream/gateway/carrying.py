"""Carries one vendor's signatures through a client of another wire, and back.

Vendors require the reasoning and calls that they signed or encrypted to be sent back. The client's wire has a
field for its own vendor's signatures; there they are sent as an envelope, signed by this gateway. If a wire
has no such field, they are looked up by the id of the call.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import Metadata, Part, Reasoning, ToolCall
from llmstream.chats.message import Message, Role
from llmstream.events import (
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    ToolInputDelta,
    merge_metadata,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.request import Request
from llmstream.server_side.wires import EventEncoder

__all__ = ["MARK", "Carrier", "CarryingEncoder"]

MARK: Final = "ls1."
"""The prefix of an envelope."""

# A week: longer than typical pauses in a conversation with an agent. After that, its calls lose their
# signatures.
_KEEP_S: Final = 7 * 86400.0
# About 10 MB at 1 kB per reasoning block; without a ledger a gateway has only these.
_MAX_IN_MEMORY: Final = 10_000
# Half of SHA-256 (RFC 2104, 5 allows no less): envelopes travel with every request, and short ones cost less.
_MAC_BYTES: Final = 16

# Where a wire's clients store their vendor's signatures: the dialect's key, the field, and whether the wire
# has base64 there, which clients decode.
_SLOTS: Final = {
    "anthropic": ("anthropic", "signature", False),
    "openai-responses": ("openai", "encrypted_content", False),
    "gemini": ("google", "thought_signature", True),
    "gemini-interactions": ("google", "signature", False),
    "bedrock-converse": ("bedrock", "signature", False),
}
_MARK_BASE64: Final = "bHMxL"  # of "ls1." and what follows

# Nearly all events of a stream; they have no signature, and are passed on without further checks.
_UNCHANGED: Final = frozenset({TextDelta, ToolInputDelta})


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signed data of one call: the reasoning before it, and its own metadata."""

    thoughts: list[tuple[str, Metadata | None]] = []
    metadata: Metadata | None = None


_decode: Final = msgspec.json.Decoder(_Entry).decode
_decode_metadata: Final = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode

Save = Callable[[Sequence[tuple[str, bytes]], float], object]
Find = Callable[[Sequence[str]], Awaitable[dict[str, bytes] | None]]


class Carrier:
    """Envelopes, and the table of calls.

    secret: signs envelopes; the same for all workers
    save, find: the table for other workers and restarts; by default only this process
    """

    def __init__(self, secret: bytes, save: Save | None = None, find: Find | None = None) -> None:
        self._secret = secret
        self._save, self._find = save, find
        self._recent: OrderedDict[str, bytes] = OrderedDict()

    def sealed(self, metadata: Metadata | None, *, as_base64: bool = False) -> str:
        """Returns an envelope."""
        payload = msgspec.json.encode(metadata or {})
        seal = MARK + _base64(payload) + "." + _base64(self._mac(payload))
        return base64.b64encode(seal.encode()).decode() if as_base64 else seal

    def opened(self, text: str) -> Metadata | None:
        """Returns the content of an envelope; None for one that this gateway did not sign."""
        try:
            if text.startswith(_MARK_BASE64):
                text = base64.b64decode(text).decode("ascii")
            payload, _, mac = text.removeprefix(MARK).partition(".")
            data = _from_base64(payload)
            # Without the check a client could forge data that the vendor treats as its own earlier output.
            if hmac.compare_digest(self._mac(data), _from_base64(mac)):
                return _decode_metadata(data)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            pass
        return None

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._secret, payload, hashlib.sha256)[:_MAC_BYTES]

    def remember(self, entries: dict[str, _Entry]) -> None:
        """Stores the signed data of calls, by owner and id."""
        rows = [(key, msgspec.json.encode(entry)) for key, entry in entries.items()]
        # In memory too, because the store is written in the background: the client's next request may arrive
        # first.
        self._recent.update(rows)
        while len(self._recent) > _MAX_IN_MEMORY:
            self._recent.popitem(last=False)
        if self._save is not None and rows:
            self._save(rows, _KEEP_S)

    async def _found(self, keys: Sequence[str]) -> dict[str, _Entry]:
        found = {key: self._recent[key] for key in keys if key in self._recent}
        missing = [key for key in keys if key not in found]
        if missing and self._find is not None:
            found |= await self._find(missing) or {}
        return {key: _decode(data) for key, data in found.items()}

    # From the client to the vendor.

    async def restored(self, request: Request, wire: str, owner: str) -> Request:
        """Returns the request with the vendors' original signatures.

        wire:  of the client
        owner: name of the client's key; clients cannot read each other's data
        """
        calls = [
            part
            for message in request.messages
            if message.role == Role.ASSISTANT
            for part in message.parts
            if isinstance(part, ToolCall) and not part.provider_executed
        ]
        keys = {call.id: _keys(owner, wire, call.id, call.name, call.arguments) for call in calls}
        found = await self._found([*dict.fromkeys(key for both in keys.values() for key in both)])
        entries = {
            # By id if known, since two calls may be equal.
            call_id: next(found[key] for key in both if key in found)
            for call_id, both in keys.items()
            if not found.keys().isdisjoint(both)
        }
        messages = [
            _restored([self._unsealed(part) for part in message.parts], message, entries)
            if message.role == Role.ASSISTANT
            else message
            for message in request.messages
        ]
        return msgspec.structs.replace(request, messages=tuple(messages))

    def _unsealed(self, part: Part) -> Part:
        metadata: Metadata | None = getattr(part, "metadata", None)
        if not metadata:
            return part
        rest, carried = dict[str, dict[str, Any]](), None
        for provider, fields in metadata.items():
            kept = {}
            for name, value in fields.items():
                if isinstance(value, str) and value.startswith((MARK, _MARK_BASE64)):
                    carried = merge_metadata(carried, self.opened(value))
                else:
                    kept[name] = value
            if kept:
                rest[provider] = kept
        if rest == metadata:
            return part
        return msgspec.structs.replace(part, metadata=merge_metadata(rest, carried) or None)  # type: ignore[type-var]


def _restored(parts: list[Part], message: Message, entries: dict[str, _Entry]) -> Message:
    """The message with the reasoning and the signatures of its calls."""
    known = [entries.get(part.id) if isinstance(part, ToolCall) else None for part in parts]
    again = any(entry is not None and entry.thoughts for entry in known)
    out: list[Part] = []
    first = True
    for part, entry in zip(parts, known, strict=True):
        if again and isinstance(part, Reasoning):
            continue  # the same reasoning is added below; a client may have lost its text
        if entry is not None and isinstance(part, ToolCall):
            thoughts: list[Part] = [Reasoning(text, metadata) for text, metadata in entry.thoughts]
            # A response begins with its reasoning, and text may be between it and the call.
            out = [*thoughts, *out] if first else [*out, *thoughts]
            first = False
            part = msgspec.structs.replace(part, metadata=merge_metadata(entry.metadata, part.metadata))
        out.append(part)
    return msgspec.structs.replace(message, parts=tuple(out))


# Clients of Ollama have no ids for calls, those of Gemini need not send them, and Mistral's may be shortened
# to the nine characters that its API accepts. For these, look up by name and arguments.
_WITHOUT_IDS: Final = frozenset({"ollama", "gemini", "mistral"})


def _keys(owner: str, wire: str, call_id: str, name: str, arguments: str) -> tuple[str, ...]:
    """The lookup keys of a call, best first."""
    by_id = f"{owner}:{call_id}"
    if wire not in _WITHOUT_IDS:
        return (by_id,)
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(arguments or "{}"), order="sorted").decode()
    except (msgspec.MsgspecError, RecursionError):
        pass
    return by_id, f"{owner}:{hashlib.sha256(f'{name} {arguments}'.encode()).hexdigest()}"


class CarryingEncoder:
    """Writes vendors' signatures into the fields of the client's wire, and stores them by call.

    is_native: whether the responding vendor uses the client's wire, so that signatures pass unchanged
    """

    def __init__(
        self, encoder: EventEncoder, carrier: Carrier, wire: str, owner: str, is_native: Callable[[], bool]
    ) -> None:
        self.close = encoder.close
        self._encode = encoder.feed
        self._carrier = carrier
        self._wire, self._owner = wire, owner
        self._slot = _SLOTS.get(wire)
        self._is_native = is_native
        self._native: bool | None = None
        self._open: dict[str, list[str]] = {}
        self._metadata: dict[str, Metadata | None] = {}
        self._thoughts: list[tuple[str, Metadata | None]] = []
        self._entries: dict[str, _Entry] = {}

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        kind = type(event)
        if kind in _UNCHANGED:
            return self._encode(event)
        # Known only now, because earlier models may have failed.
        if self._native is None:
            self._native = self._is_native()
        return self._encode(event if self._native else self._carried(event))

    def _carried(self, event: Event) -> Event:
        match event:
            case ReasoningStart():
                self._open[event.id], self._metadata[event.id] = [], event.provider_metadata
                return msgspec.structs.replace(event, provider_metadata=None)
            case ReasoningDelta():
                self._open.setdefault(event.id, []).append(event.delta)
                if event.provider_metadata:
                    self._metadata[event.id] = merge_metadata(
                        self._metadata.get(event.id), event.provider_metadata
                    )
                    return msgspec.structs.replace(event, provider_metadata=None)
            case ReasoningEnd():
                metadata = merge_metadata(self._metadata.pop(event.id, None), event.provider_metadata)
                self._thoughts.append(("".join(self._open.pop(event.id, [])), metadata))
                return msgspec.structs.replace(event, provider_metadata=self._slotted(metadata))
            case ToolCallEvent() if not event.provider_executed:
                return self._call(event)
            case TextEnd() if event.provider_metadata and self._wire == "gemini":
                return msgspec.structs.replace(
                    event, provider_metadata=self._slotted(event.provider_metadata)
                )
            case Finish():
                # At the end, in one write; clients do not send back the answer of an interrupted stream.
                self._carrier.remember(self._entries)
                self._entries = {}
            case _:
                pass
        return event

    def _call(self, event: ToolCallEvent) -> Event:
        # The owner is part of the key, so that a guessed id of another client's call finds nothing.
        keys = _keys(self._owner, self._wire, event.tool_call_id, event.tool_name, event.input)
        thoughts = [one for one in self._thoughts if one[1]]
        if thoughts or event.provider_metadata:
            self._entries |= dict.fromkeys(keys, _Entry(thoughts, event.provider_metadata))
        self._thoughts = []
        if self._wire == "gemini" and event.provider_metadata:
            return msgspec.structs.replace(event, provider_metadata=self._slotted(event.provider_metadata))
        return event

    def _slotted(self, metadata: Metadata | None) -> Metadata | None:
        """The metadata in the slot of the client's wire. Anthropic's must not be empty."""
        if self._slot is None or not (metadata or self._wire == "anthropic"):
            return None
        key, field, as_base64 = self._slot
        return {key: {field: self._carrier.sealed(metadata, as_base64=as_base64)}}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
