"""Long answers of Google's models, which come in several responses: what both of its APIs share.

Gemini 4 writes at most 65,536 tokens a response. An answer that is longer ends in the middle, with a
token; the next request sends the token and gets what follows.
source: google-genai 3.4.0, `_extra_utils.StreamContinuation` and `_interactions_continuation`
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import Place
from llmstream.dialects.options import options_of
from llmstream.events import Usage
from llmstream.request import Request

__all__ = ["OPTION", "Responses", "asked_for", "with_options", "without_option"]

OPTION: Final = "automatic_continuation"
"""The provider option that switches it off; google-genai's name. It never goes to the vendor."""


class Responses:
    """The responses that one answer is made of: counted, added up, and where the next one begins.

    last:   the latest place that the vendor gave
    spoken: content came after it, so that a response from there would repeat some
    count:  of the responses that continue the first
    """

    def __init__(self) -> None:
        self.last: Place | None = None
        self.spoken = False
        self.count = 0
        self._asked: Place | None = None
        self._usages: list[Usage] = []

    @property
    def next(self) -> Place | None:
        """What asks for exactly what follows the content so far."""
        return None if self.spoken else self.last

    def place(self, token: Any, response_id: str | None = None) -> None:
        """The vendor gave a token; anything but a text says nothing."""
        if isinstance(token, str) and token:
            self.last = Place(token, response_id)
            self.spoken = False

    def forget(self) -> None:
        """The vendor ended the answer for another reason than its length."""
        self.last = None

    def go_on(self, usage: Usage) -> None:
        """A response is over, and another follows. One that is asked for again is counted once.

        usage: of the response that is over
        """
        if self.last != self._asked:
            self._asked = self.last
            self.count += 1
        if usage != Usage():
            self._usages.append(usage)

    def usage(self, current: Usage) -> Usage:
        """The sum, with the response that is read now. Google bills each with the whole prompt.

        `raw` is a list of the vendor's objects then, one for each request.
        """
        if not self._usages:
            return current
        parts = [*self._usages, current] if current != Usage() else self._usages
        total = sum(parts[1:], parts[0])
        return msgspec.structs.replace(total, raw=[part.raw for part in parts])

    def metadata(self) -> dict[str, Any]:
        """What the finish says of all this: nothing for an answer of one response."""
        told: dict[str, Any] = {"continuations": self.count} if self.count else {}
        return told | ({"continuation_token": self.last.token} if self.last is not None else {})


def asked_for(request: Request, key: str, provider: str) -> bool:
    """Whether answers are to be continued; yes, unless the option says no."""
    return options_of(request, key, provider).get(OPTION) is not False


def without_option(request: Request, key: str, provider: str) -> Request:
    """The same request without the option, which is for us and not for the vendor."""
    given = request.provider_options
    if not any(OPTION in given.get(name, {}) for name in (key, provider)):
        return request
    cleaned = {
        name: {k: v for k, v in options.items() if k != OPTION} if name in (key, provider) else options
        for name, options in given.items()
    }
    return msgspec.structs.replace(request, provider_options=cleaned)


def with_options(request: Request, provider: str, options: dict[str, Any]) -> Request:
    """The same request with options that win over the caller's."""
    given = request.provider_options
    merged = {**given, provider: {**given.get(provider, {}), **options}}
    return msgspec.structs.replace(request, provider_options=merged)
