"""Background responses: generated without a reader, stored for a while, resumed and cancelled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import NotFound
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.serving.wires import ServerSide
from llmstream.serving.wires.openai_responses.reader import KeptRequest, read_kept_request
from llmstream.simulator.script import Cut, Stall, Turn

__all__ = ["BackgroundResponses", "uncut"]


_MOST: Final = 256


def uncut(turn: Turn) -> Turn:
    """Returns the turn without faults of the connection, as the vendor stores it."""
    return msgspec.structs.replace(turn, fault=None) if isinstance(turn.fault, Cut | Stall) else turn


class _Numbered(msgspec.Struct):
    sequence_number: int = -1
    response: dict[str, Any] | None = None


class BackgroundResponse:
    """One stored response: frames with their sequence number and due time.

    pieces: seconds from now and bytes, any number of frames in each
    """

    def __init__(self, pieces: Iterable[tuple[float, bytes]], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._ended_s: float | None = None
        self._frames = [
            (due_s, _numbered(frame), frame + b"\n\n")
            for due_s, data in pieces
            for frame in data.split(b"\n\n")
            if frame.strip()
        ]
        first = next((said.response for _, said, _ in self._frames if said.response), {})
        self.response_id = str(first.get("id"))
        self._queued = {**first, "status": "queued"}

    def rest(self, after: int) -> Iterator[tuple[float, bytes]]:
        """Yields the frames after a number, with the seconds until each is due."""
        asked_s, last = self._age(), after
        for due_s, said, frame in self._frames:
            if self._is_dropped(due_s):
                break
            if said.sequence_number > after:
                last = said.sequence_number
                yield max(0.0, due_s - asked_s), frame
        if self._ended_s is not None and not self._is_over():
            yield 0.0, self._last_word(last + 1)

    def end(self) -> dict[str, Any]:
        """Stops the response; returns its current state."""
        if self._ended_s is None:
            self._ended_s = self._age()
        return self.whole()

    def whole(self) -> dict[str, Any]:
        """Returns the current state of the response."""
        now = self._age()
        made = [s.response for due, s, _ in self._frames if due <= now and not self._is_dropped(due)]
        response = next((r for r in reversed(made) if r is not None), self._queued)
        ended = self._ended_s is not None and not self._is_over()
        return {**response, "status": "cancelled"} if ended else response

    def _age(self) -> float:
        return self._clock() - self._began

    def _is_dropped(self, due_s: float) -> bool:
        return self._ended_s is not None and due_s > self._ended_s

    def _is_over(self) -> bool:
        """Whether it was complete before it was stopped."""
        last_s = self._frames[-1][0] if self._frames else -math.inf
        return not self._is_dropped(last_s)

    def _last_word(self, number: int) -> bytes:
        said = {"type": "response.cancelled", "sequence_number": number, "response": self.whole()}
        return b"event: response.cancelled\ndata: " + msgspec.json.encode(said) + b"\n\n"


class BackgroundResponses:
    """The stored responses of a simulator: the latest 256."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: dict[str, BackgroundResponse] = {}

    def begin(self, pieces: list[tuple[float, bytes]], turn: Turn) -> Iterator[tuple[float, bytes]]:
        """Stores a response; returns the pieces for its first reader.

        pieces: one for each event of the turn
        """
        answer = self._keep(pieces)
        count = turn.fault.after_events if isinstance(turn.fault, Cut | Stall) else len(pieces)
        shown = sum(data.count(b"\n\n") for _, data in pieces[:count])
        return itertools.islice(answer.rest(-1), shown if count < len(pieces) else None)

    def begin_unread(self, pieces: list[tuple[float, bytes]]) -> HttpResponse:
        """Stores a response without a streaming reader; returns its first state."""
        return _page(self._keep(pieces).whole())

    def _keep(self, pieces: list[tuple[float, bytes]]) -> BackgroundResponse:
        answer = BackgroundResponse(pieces, self._clock)
        self._answers[answer.response_id] = answer
        if len(self._answers) > _MOST:
            del self._answers[next(iter(self._answers))]
        return answer

    def find(self, wish: KeptRequest) -> BackgroundResponse:
        """Finds the requested response.

        raises: NotFound with the vendor's message
        """
        response_id = wish.position.response_id
        found = self._answers.get(response_id)
        if found is None:
            raise NotFound(f"Response with id '{response_id}' not found.", status=404, reason="not_found")
        return found

    @staticmethod
    def wish(http: HttpRequest, sides: Iterable[ServerSide]) -> tuple[ServerSide, KeptRequest] | None:
        """Parses a request for a stored response; None for any other request."""
        for side in sides:
            dialect = side.dialect
            if not isinstance(dialect, OpenAIResponses):
                continue
            wish = read_kept_request(http, dialect.quirks.path)
            if wish is not None:
                return side, wish
        return None

    def page(self, wish: KeptRequest) -> HttpResponse:
        """Returns the current state of a response as JSON; stops it first if requested."""
        answer = self.find(wish)
        response = answer.end() if wish.wish == "cancel" else answer.whole()
        return _page(response)


def _page(response: dict[str, Any]) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(response), {"content-type": "application/json"})


def _numbered(frame: bytes) -> _Numbered:
    _, _, data = frame.partition(b"data: ")
    return msgspec.json.decode(data, type=_Numbered)
