"""User input that is sent into an answer under way, and what becomes of it.

Input that the server has accepted waits until a successor of the answer begins, which takes all of it.
The answer may end early for that, as `incomplete` with the reason `steered`, or in its own time. Where it
ends with calls for the client to run, the input waits for their results, and the next request takes it.

source: `response.steer` and its events in openai 3.54 (types/responses), read 2026-11
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from llmstream.dialects.openai_responses.sources import KEY
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import LLMStreamError
from llmstream.events import Custom

__all__ = ["KIND", "STEERED", "Steerings", "Submission", "steering_event"]

KIND: Final = f"{KEY}.steering"
"""The `custom` event at whose place in the answer the input takes effect."""

STEERED: Final = "steered"
"""Why an answer is incomplete that made room for its successor."""


class Submission:
    """One input; see `exchange.Steering`.

    items: of the input, as the wire has them
    """

    def __init__(self, items: list[dict[str, Any]], message: bytes = b"") -> None:
        self.items = items
        self.message = message
        self.settled = False
        self.error: LLMStreamError | None = None


class Steerings:
    """The input that one side of a socket has sent. Acknowledgements come in the order of the submissions.

    waiting: the answer has ended with calls to run, whose results the accepted input waits for
    """

    def __init__(self, provider: str) -> None:
        self.waiting = False
        self._provider = provider
        self._unanswered: deque[Submission] = deque()
        self._accepted: dict[str, Submission] = {}

    @property
    def due(self) -> bool:
        """Whether something more will come of it, though the answer itself is over."""
        return bool(self._unanswered) or (bool(self._accepted) and not self.waiting)

    @property
    def items(self) -> list[dict[str, Any]]:
        """What was accepted and has not taken effect."""
        return [item for submission in self._accepted.values() for item in submission.items]

    def sent(self, submission: Submission) -> None:
        """Input is on its way."""
        self._unanswered.append(submission)

    def hear(self, kind: str, said: object, error: object) -> None:
        """What the server says of it: `response.steer.accepted`, `.pending` or `.failed`."""
        found = said.get("id") if isinstance(said, dict) else None
        number = found if isinstance(found, str) else ""
        if kind == "response.steer.pending":
            self.waiting = True
        elif kind == "response.steer.accepted":
            submission = self._settled()
            if submission is not None and number:
                self._accepted[number] = submission
        elif kind == "response.steer.failed" and self._accepted.pop(number, None) is None:
            submission = self._settled()
            if submission is not None:
                submission.error = error_from_value({"error": error}, provider=self._provider, status=400)

    def take(self) -> list[dict[str, Any]]:
        """A successor begins: the items that it takes."""
        items = self.items
        self._accepted.clear()
        self.waiting = False
        return items

    def _settled(self) -> Submission | None:
        if not self._unanswered:
            return None
        submission = self._unanswered.popleft()
        submission.settled = True
        return submission


def steering_event(item: dict[str, Any], provider: str) -> Custom:
    """The event that says where input took effect; it goes back to the API as a message of the user."""
    return Custom(KIND, {KEY: {"type": "steering", "provider": provider, "item": item}})


class SteerMessage(msgspec.Struct, tag="response.steer", tag_field="type"):
    """The client's message."""

    previous_response_id: str
    input: list[dict[str, Any]]
