"""A model that says what a test wants, in this process: no server, no socket, no time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import ConnectionLost, IncompleteStream, InvalidRequest, LLMStreamError, error_from_info
from llmstream.events import Event, Finish, Usage
from llmstream.grammar import Guard
from llmstream.providers.base import Provider
from llmstream.request import Request
from llmstream.simulator import Cut, Refuse, Script, ScriptLike, Stall, Turn
from llmstream.simulator.utterance import PromptTokens, estimated_tokens, usage_of, utter
from llmstream.streams.call import Call
from llmstream.streams.model import Model
from llmstream.streams.observations import Observe, Watch
from llmstream.streams.options import Options
from llmstream.transport.limiter import Limiter, Permit

__all__ = ["ScriptedModel"]

_NAME = "scripted"


class ScriptedModel(Model):
    """Stands where a `Model` is wanted and answers from turns, in order; after the last, the last again.

    Pace is ignored: an answer is there at once, one event at a time. Deadlines and retries have
    nothing to do, so a refusal is an error at the first attempt. For those, for a stall or for
    the bytes on the wire use `Simulator`.

    turns:    texts, `Turn`s, or one `ScriptLike` that decides by the request
    limiter:  calls stand in line for it, as those of any `Model` do
    observe:  is told of calls, as by any `Model`
    requests: what it was asked, in order
    raises:   InvalidRequest where there are no turns, or a script is one of several
    """

    def __init__(
        self,
        *turns: str | Turn | ScriptLike,
        model: str = _NAME,
        limiter: Limiter | None = None,
        observe: Observe | None = None,
    ) -> None:
        # The dialect is never asked: nothing is encoded.
        provider = Provider(name=_NAME, dialect=OpenAIChat(), base_url="http://127.0.0.1", key_required=False)
        super().__init__(f"{_NAME}:{model}", provider=provider, limiter=limiter, observe=observe)
        self.requests: list[Request] = []
        self._script = _script(turns)
        self._prompts = PromptTokens()

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """The answer to one request."""
        number = len(self.requests)
        self.requests.append(request)
        watch: Watch | None = None
        if self.observe is not None:
            watch = Watch(self.observe, call_id=str(uuid.uuid4()), provider=_NAME, model=request.model)
        turn = self._script.turn(request, number)
        if turn.usage is None and not turn.events:
            turn = msgspec.structs.replace(turn, usage=usage_of(turn, self._prompts.of(request)))
        return _ScriptedCall(turn, request, number, watch, self.limiter)


class _ScriptedCall(Call):
    """The events of one turn, where else a response is read; of `Call` only what a reader uses."""

    def __init__(
        self, turn: Turn, request: Request, number: int, watch: Watch | None, limiter: Limiter | None
    ) -> None:
        if isinstance(turn.fault, Stall):
            raise InvalidRequest("a scripted model cannot stall; use Simulator, whose clients have deadlines")
        self.error: LLMStreamError | None = None
        self.attempts = 1
        self.retried: list[LLMStreamError] = []
        self._usage = Usage()
        self._events = self._said(turn, request, number)
        self._request = request
        self._watch = watch
        self._limiter = limiter
        self._permit: Permit | None = None
        self._begun = False

    @property
    def usage(self) -> Usage:
        """Tokens as far as they have been said."""
        return self._usage

    async def next(self) -> list[Event]:
        """The next event; [] once the sentence is over."""
        if not self._begun:
            await self._begin()
        await asyncio.sleep(0)  # others get their turn, as they would while a socket is read
        events = list(islice(self._events, 1))
        if self._watch is not None:
            self._watch.batch(events)
        if not events or isinstance(events[0], Finish):
            self._ended(left=False)
        return events

    def close(self) -> None:
        """Nothing more is said."""
        self._events = iter(())
        self._ended(left=True)

    async def _begin(self) -> None:
        """The attempt, once it is this call's turn."""
        self._begun = True
        if self._watch is not None:
            self._watch.attempt_started(self.attempts)
        if self._limiter is not None:
            self._permit = await self._limiter.acquire(_asked_tokens(self._request))
            if self._watch is not None:
                self._watch.paced_s += self._permit.waited_s

    def _ended(self, *, left: bool) -> None:
        """Others may go, and it is said how it ended; once."""
        if self._permit is not None:
            used = (self._usage.input_tokens, self._usage.output_tokens)
            self._permit.release(None if left or used == (None, None) else sum(filter(None, used)))
            self._permit = None
        if self._begun and self._watch is not None:
            self._watch.finished(self.attempts, self._usage, self.error, left=left)

    def _said(self, turn: Turn, request: Request, number: int) -> Iterator[Event]:
        guard = Guard()
        yield from guard.start()
        failure = _failure(turn)
        if not isinstance(turn.fault, Refuse):
            for beat in utter(turn, request, number=number):
                yield from self._noted(guard.feed([beat.event]))
        ending = self._noted(guard.close(self._usage, failure.info))
        if guard.errors:
            self.error = error_from_info(guard.errors[0])
            self.error.provider = self.error.provider or _NAME
            self.error.usage = self._usage
            if isinstance(turn.fault, Refuse) and self._watch is not None:
                self._watch.attempt_failed(self.attempts, self.error, None)
        yield from ending

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Finish):
                self._usage = event.usage
        return events


def _asked_tokens(request: Request) -> float:
    """The estimate by which a limiter lets it go."""
    said = sum(estimated_tokens(message.text_content) for message in request.messages)
    return said + (request.settings.max_output_tokens or 0)


def _failure(turn: Turn) -> LLMStreamError:
    """Why an answer of this turn ends, should it end without finish."""
    match turn.fault:
        case Refuse(status=status, message=message, retry_after_s=wait_s):
            headers = {} if wait_s is None else {"retry-after": f"{wait_s:g}"}
            return error_from_value({"message": message}, provider=_NAME, status=status, headers=headers)
        case Cut(clean=False):
            return ConnectionLost("the connection was lost, as the script says", provider=_NAME)
        case _:
            return IncompleteStream("the answer broke off, as the script says", provider=_NAME)


def _script(turns: Iterable[str | Turn | ScriptLike]) -> ScriptLike:
    said: list[Turn] = []
    scripts: list[ScriptLike] = []
    for turn in turns:
        match turn:
            case str():
                said.append(Turn(text=turn))
            case Turn():
                said.append(turn)
            case _:
                scripts.append(turn)
    if len(scripts) == 1 and not said:
        return scripts[0]
    if scripts or not said:
        raise InvalidRequest("a scripted model wants texts and turns, at least one, or one script alone")
    return Script(tuple(said))
