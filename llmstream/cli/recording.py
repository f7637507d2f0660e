"""A recorded body becomes one sentence of events, as if it came over the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from llmstream.cli.sniffing import looks_like
from llmstream.dialects.base import Dialect
from llmstream.dialects.errors import is_error_body, vendor_error
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.names import DIALECTS
from llmstream.errors import LLMStreamError, NotAStream, StreamError
from llmstream.events import ErrorEvent, Event, Finish, Raw, ResponseMetadata, StreamStart

__all__ = ["Recording"]

_NO_CONTENT: Final = frozenset({StreamStart, ResponseMetadata, Raw, ErrorEvent, Finish})
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"{", b"\xef\xbb\xbf")
"""How the bodies of our text framings begin, also those that are cut off at once."""
_KEPT_BYTES: Final = 16 * 1024 * 1024
_EXCERPT_BYTES: Final = 80


class Recording:
    """Decodes one body. Until its first content comes, events wait: should the body be no stream
    of this dialect, they are replaced by an error that says what it is.

    error: why the stream in it failed, or None; known once `events` is exhausted
    """

    def __init__(self, dialect: Dialect, *, provider: str, include_raw: bool = False) -> None:
        self.error: LLMStreamError | None = None
        self._dialect = dialect
        self._provider = provider
        self._include_raw = include_raw

    def events(self, pieces: Iterable[bytes]) -> Iterator[list[Event]]:
        """The whole sentence, in batches.

        pieces: the body in order, cut anywhere
        """
        sentence = self._sentence()
        held: list[Event] | None = sentence.start()
        head = bytearray()
        for piece in pieces:
            events = sentence.feed(piece)
            if held is not None:
                head += piece[: _KEPT_BYTES - len(head)]
                held += events
                if all(type(event) in _NO_CONTENT for event in events):
                    events = []
                else:
                    events, held = held, None
            if events:
                yield events
            if sentence.done:
                break
        rest = sentence.close()
        self.error = sentence.error
        if held is not None:
            rest = held + rest
            if isinstance(self.error, StreamError):
                rest = self._second_look(bytes(head)) or rest
        if rest:
            yield rest

    def _sentence(self) -> GuardedDecoder:
        decoder = self._dialect.decoder(provider=self._provider, include_raw=self._include_raw)
        return GuardedDecoder(decoder, provider=self._provider)

    def _second_look(self, body: bytes) -> list[Event] | None:
        """The events of a body that is no stream; None where it is one and just failed."""
        sentence = self._sentence()
        events = sentence.start()
        if self._dialect.content_type == "text/event-stream" and _is_one_json_value(body):
            if is_error_body(body):
                return self._failed(vendor_error(200, {}, body, provider=self._provider))
            line = b" ".join(body.split(b"\n"))
            events += sentence.feed(b"data: " + line + b"\n\n") + sentence.close()
            if sentence.error is None:
                self.error = None
                return events
        message = self._what_it_is(body)
        return self._failed(NotAStream(message, provider=self._provider)) if message else None

    def _failed(self, error: LLMStreamError) -> list[Event]:
        sentence = self._sentence()
        events = sentence.start() + sentence.fail(error)
        self.error = sentence.error
        return events

    def _what_it_is(self, body: bytes) -> str:
        """What the body is if it is not what the dialect says, and the remedy; "" if it may be."""
        dialect = self._dialect.name
        name, words = looks_like(body)
        if name == dialect:
            if body.startswith(_BEGINNINGS) and not self._dialect.content_type.startswith("text/event"):
                return (
                    f"this recording is {words}, not in the frames of {self._provider}. Leave out --provider."
                )
            return ""
        if not words:
            if body.lstrip().startswith(_BEGINNINGS):
                return ""
            return (
                f"this recording is no {dialect} stream. It begins: "
                f"{body[:_EXCERPT_BYTES].decode('utf-8', 'replace')!r}"
            )
        remedy = ""
        if name:
            known = name.partition(" ")[0] in DIALECTS
            remedy = f" Try --dialect {name}." if known else f" Its dialect, {name}, cannot be replayed yet."
        return f"this recording is no {dialect} stream: it looks like {words}.{remedy}"


def _is_one_json_value(body: bytes) -> bool:
    if not body.lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True
