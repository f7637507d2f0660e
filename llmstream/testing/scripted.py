"""A model that says what a test wants, in this process: no server, no socket, no time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from llmstream.chats.content import Part
from llmstream.dialects.base import Position
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import is_json
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import (
    ConnectionLost,
    IncompleteStream,
    InvalidRequest,
    LLMStreamError,
    Unsupported,
    error_from_info,
)
from llmstream.events import Event, Finish, OtherWarning, StreamStart, ToolCall, Usage
from llmstream.grammar import Guard
from llmstream.providers.base import Provider
from llmstream.request import Request
from llmstream.simulator import Cut, Refuse, Script, ScriptFunction, ScriptLike, Stall, Turn
from llmstream.simulator.script import as_script
from llmstream.simulator.utterance import PromptTokens, estimated_tokens, usage_of, utter
from llmstream.streams.call import Call
from llmstream.streams.history import is_plain, mended
from llmstream.streams.model import Model
from llmstream.streams.observations import Observe, Watch
from llmstream.streams.observers import joined
from llmstream.streams.options import Options
from llmstream.transport.limiter import Permit, RateLimiter

__all__ = ["ScriptedModel", "UnscriptedRequest"]

_NAME = "scripted"
_ATTEMPT = 1
"""Nothing is sent again: a refusal is an error at the first attempt."""


class UnscriptedRequest(AssertionError):
    """A scripted model was asked more often than its script has turns."""


class ScriptedModel(Model):
    """Stands where a `Model` is wanted and answers from turns, in order; asked once more, the test fails.

    Pace is ignored: an answer is there at once, one event at a time. Deadlines and retries have
    nothing to do, so a refusal is an error at the first attempt. For those, for a stall or for
    the bytes on the wire use `Simulator`.

    turns:    texts, `Turn`s, or one script that decides by the request: a function of the request (and
              of the number of requests before it) that gives a text or a `Turn`, or a `ScriptLike`
    repeat_last: after the last turn the last again, in place of UnscriptedRequest
    limiter:  calls stand in line for it, as those of any `Model` do
    observe:  is told of calls, as by any `Model`
    requests: what it was asked, in order, with the conversation as a vendor would be sent it: where it
              had to be repaired, as for any `Model`, repaired
    raises:   InvalidRequest where there are no turns, or a script is one of several; when asked,
              UnscriptedRequest, an AssertionError
    """

    def __init__(
        self,
        *turns: str | Turn | ScriptLike | ScriptFunction,
        model: str = _NAME,
        repeat_last: bool = False,
        limiter: RateLimiter | None = None,
        observe: Observe | None = None,
    ) -> None:
        # The dialect is never asked: nothing is encoded.
        provider = Provider(name=_NAME, dialect=OpenAIChat(), base_url="http://127.0.0.1", key_required=False)
        super().__init__(f"{_NAME}:{model}", provider=provider, limiter=limiter, observe=observe)
        self.requests: list[Request] = []
        self._script = _script(turns)
        self._turns = _count(turns, repeat_last)
        self._prompts = PromptTokens()

    def assert_exhausted(self) -> None:
        """Fails where a turn was never asked for, or one was that there is none of.

        Also where the library or the application caught the UnscriptedRequest, as that of a sub-agent.

        raises: AssertionError; InvalidRequest for a script that has no last turn
        """
        if self._turns is None:
            raise InvalidRequest("a script that decides by the request, or repeats its last turn, has no end")
        if len(self.requests) != self._turns:
            raise AssertionError(f"{len(self.requests)} requests were made of the {self._turns} scripted")

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """The answer to one request."""
        number = len(self.requests)
        warnings: list[OtherWarning] = []
        if not is_plain(request.messages):
            messages, warnings = mended(request.messages)
            request = msgspec.structs.replace(request, messages=tuple(messages))
        self.requests.append(request)
        if self._turns is not None and number >= self._turns:
            raise UnscriptedRequest(
                f"request {number + 1} of a ScriptedModel that has {self._turns} turns. Script one more, or "
                f"pass repeat_last=True. It ends in: {_ending(request)}"
            )
        watch: Watch | None = None
        observe = joined(self.observe, (options or {}).get("observe"))
        if observe is not None:
            call_id = str(uuid.uuid4())
            watch = Watch(observe, call_id=call_id, provider=_NAME, model=request.model, request=request)
        turn = self._script.turn(request, number)
        if turn.usage is None and not turn.events:
            turn = msgspec.structs.replace(turn, usage=usage_of(turn, self._prompts.of(request)))
        return _ScriptedCall(turn, request, number, watch, self.limiter, warnings)


class _ScriptedCall:
    """The events of one turn, as a `Call`."""

    def __init__(
        self,
        turn: Turn,
        request: Request,
        number: int,
        watch: Watch | None,
        limiter: RateLimiter | None,
        warnings: list[OtherWarning],
    ) -> None:
        if isinstance(turn.fault, Stall):
            raise InvalidRequest("a scripted model cannot stall; use Simulator, whose clients have deadlines")
        self.error: LLMStreamError | None = None
        self.earlier: Position | None = None
        self._usage = Usage()
        self._events = self._said(turn, request, number, warnings)
        self._request = request
        self._watch = watch
        self._limiter = limiter
        self._permit: Permit | None = None
        self._begun = False

    @property
    def usage(self) -> Usage:
        """Tokens as far as they have been said."""
        return self._usage

    @property
    def headers(self) -> Mapping[str, str]:
        """None: nothing travels."""
        return {}

    @property
    def answered_by(self) -> None:
        """None: the model that was called answers."""

    @property
    def position(self) -> None:
        """None: nobody keeps the answer."""

    async def steer(self, content: Sequence[Part]) -> None:
        """Refuses: a script is not steered.

        raises: Unsupported
        """
        raise Unsupported("a ScriptedModel cannot be steered; use Simulator over a WebSocket", provider=_NAME)

    async def aclose(self) -> None:
        """As `close`."""
        self.close()

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
            self._watch.attempt_started(_ATTEMPT)
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
            self._watch.finished(_ATTEMPT, self._usage, self.error, left=left)

    def _said(
        self, turn: Turn, request: Request, number: int, warnings: list[OtherWarning]
    ) -> Iterator[Event]:
        guard = Guard()
        for event in guard.start():
            yield StreamStart([*warnings]) if warnings and isinstance(event, StreamStart) else event
        failure = _failure(turn)
        if not isinstance(turn.fault, Refuse):
            for beat in utter(turn, request, number=number):
                yield from self._noted(guard.feed([_flagged(beat.event)]))
        ending = self._noted(guard.close(self._usage, failure.info))
        if guard.errors:
            self.error = error_from_info(guard.errors[0])
            self.error.provider = self.error.provider or _NAME
            self.error.usage = self._usage
            if isinstance(turn.fault, Refuse) and self._watch is not None:
                self._watch.attempt_failed(_ATTEMPT, self.error, None)
        yield from ending

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Finish):
                self._usage = event.usage
        return events


def _flagged(event: Event) -> Event:
    """A call whose input is no JSON is marked, as the decoder of a wire marks it."""
    if isinstance(event, ToolCall) and not event.invalid and not is_json(event.input):
        return msgspec.structs.replace(event, invalid=True)
    return event


def _ending(request: Request) -> str:
    """The last message of a request, for people."""
    last = request.messages[-1]
    calls = [result.name or result.tool_call_id for result in last.tool_results]
    said = f"results of {', '.join(calls)}" if calls else repr(last.text_content[:200])
    return f"{last.role}: {said}"


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


def _count(turns: tuple[object, ...], repeat_last: bool) -> int | None:
    """After how many turns a request is one too many; None for never."""
    if repeat_last or not all(isinstance(turn, str | Turn) for turn in turns):
        return None
    return len(turns)


def _script(turns: Iterable[str | Turn | ScriptLike | ScriptFunction]) -> ScriptLike:
    said: list[Turn] = []
    scripts: list[ScriptLike | ScriptFunction] = []
    for turn in turns:
        match turn:
            case str():
                said.append(Turn(text=turn))
            case Turn():
                said.append(turn)
            case _:
                scripts.append(turn)
    if len(scripts) == 1 and not said:
        return as_script(scripts[0])
    if scripts or not said:
        raise InvalidRequest("a scripted model wants texts and turns, at least one, or one script alone")
    return Script(tuple(said))
