"""What all agents of a run write to: frames of AG-UI, and the transcript of what the client has by then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from llmstream.errors import ErrorInfo, Unsupported
from llmstream.events import File, Metadata, ReasoningFile, Usage
from llmstream.ui.ag_ui.transcript import Transcript
from llmstream.unique_ids import UniqueIds

__all__ = ["OWN", "WIDEST_FRAME", "Output", "Settings", "builtins", "frame", "packed", "present", "unpacked"]

OWN: Final = "llmstream"
"""The key of what is ours in `metadata`, and what our names of CUSTOM events begin with."""

# The buffer of the client's parser: a wider frame ends its reading (`transform/sse.ts` of 1.0.0).
WIDEST_FRAME: Final = 10 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a `Writer` that concern single events.

    reasoning:  whether reasoning is written
    raw:        whether wire events of the vendor are
    error_text: the sentence that a visitor sees
    file_url:   the address of a file that the model made, instead of a data URL
    """

    run_id: str
    reasoning: bool
    raw: bool
    error_text: Callable[[ErrorInfo], str]
    file_url: Callable[[File | ReasoningFile], str] | None


class Output:
    """Collects frames until `take`.

    ids:       the ids of sub-agents in use
    usage:     of completed steps, by model
    wrote_any: whether a frame was ever written
    """

    def __init__(self, settings: Settings, messages: Iterable[Mapping[str, Any]] | None) -> None:
        self.settings = settings
        self.ids = UniqueIds("#")
        self.usage: dict[str | None, Usage] = {}
        earlier = [_in_form(message) for message in messages or () if isinstance(message.get("id"), str)]
        self.transcript = Transcript(earlier)
        self.wrote_any = False
        self._knows_history = messages is not None
        # In order, for the newest of an id; as a set for the check of each new call.
        self._earlier_calls = [call["id"] for message in earlier for call in message.get("toolCalls", ())]
        self._earlier_ids = frozenset(self._earlier_calls)
        self._frames: list[bytes] = []

    def take(self) -> bytes:
        """Returns the frames since the last time."""
        frames = b"".join(self._frames)
        self._frames.clear()
        return frames

    def write(self, kind: str, /, **fields: Any) -> None:
        """Writes an event. Fields without a value have to be left out: the client refuses null."""
        event = {"type": kind, **fields}
        self.transcript.apply(event)
        self._frames.append(frame(event))
        self.wrote_any = True

    def fragments(self, kind: str, **fields: Any) -> Callable[[str], None]:
        """Returns a function that writes fragments: the one event of which there are hundreds.

        fields: of each event, but its delta; the message or call has begun
        """
        pieces = self.transcript.fragments(fields)
        # Encoded once, and open for the delta: it is the same for all fragments of a message.
        head = b'data: %s,"delta":' % _encode({"type": kind, **fields})[:-1]
        frames = self._frames

        def write(delta: str) -> None:
            pieces.append(delta)
            frames.append(b"%s%s}\n\n" % (head, _encode(delta)))

        return write

    def free_call_id(self, call_id: str) -> str:
        """Returns the id of a new call; another one if an earlier call of the thread has it.

        The client would append the new arguments to the old call. Servers that count calls repeat ids.
        """
        return f"{call_id}@{self.settings.run_id}" if call_id in self._earlier_ids else call_id

    def earlier_call_id(self, call_id: str) -> str:
        """Returns the id that a call of an earlier run, which has its result now, has at the client."""
        renamed = [found for found in self._earlier_calls if found.startswith(f"{call_id}@")]
        # The newest: a server that counts calls gives one id again and again.
        return renamed[-1] if renamed else call_id

    def take_back(self, ids: set[str], owners: set[str]) -> None:
        """Removes messages from the client: those with these ids, and all of these sub-agents.

        raises: Unsupported if the client's earlier messages are not known, which would be lost
        """
        some = self.transcript.discard(
            lambda message: message["id"] in ids or message.get("subagentRunId") in owners
        )
        if not some:
            return
        if not self._knows_history:
            raise Unsupported(
                "a retry takes back what the page shows, which needs the messages that the page has: pass "
                "ag_ui.Writer(messages=...) or use RunInput.writer(), or do without fallback(restart=True)"
            )
        self.write("MESSAGES_SNAPSHOT", messages=self.transcript.messages)


def frame(event: Mapping[str, Any]) -> bytes:
    """Returns an event as a frame of SSE. Lines end in LF: the client's parser breaks on CRLF."""
    return b"data: %s\n\n" % _encode(event)


def _in_form(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a snapshot may have it: some pages write null for what they do not have."""
    fields = present(**message)
    calls = fields.get("toolCalls", ())
    return {**fields, "toolCalls": [present(**call) for call in calls]} if calls else fields


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def builtins(value: Any) -> Any:
    """Returns a Struct as JSON values."""
    return msgspec.to_builtins(value)


# `encryptedValue`: the slot in which the client carries what a vendor wants back verbatim.


def packed(metadata: Metadata | list[tuple[int, Metadata | None]]) -> str:
    """Returns metadata as an `encryptedValue`: of one block, or of a text's blocks with their lengths."""
    return _encode({OWN: metadata}).decode()


def unpacked(value: object) -> Any:
    """Returns what `packed` was given, with lists for tuples; None of a value that others made."""
    if not isinstance(value, str) or not value.startswith(f'{{"{OWN}":'):
        return None
    try:
        # Not msgspec: what the client sends back may have lone surrogates, which msgspec refuses.
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found.get(OWN) if isinstance(found, dict) else None
