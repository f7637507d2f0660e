"""A model with scripted answers, for tests: no server, no socket, no waiting."""

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
from llmstream.short_forms import counted
from llmstream.simulator.script import Cut, Refuse, Script, ScriptFunction, ScriptLike, Stall, Turn, as_script
from llmstream.simulator.timeline import PromptTokens, estimated_tokens, timeline_of, usage_of
from llmstream.streams.call import Call
from llmstream.streams.history import is_plain, repaired
from llmstream.streams.model import Model
from llmstream.streams.observations import Observe, Watch, joined
from llmstream.streams.options import Options
from llmstream.transport.limiter import Permit, RateLimiter

__all__ = ["ScriptedModel", "UnscriptedRequest"]

_NAME = "scripted"
# Nothing is sent again: a refusal is an error at the first attempt.
_ATTEMPT = 1


class UnscriptedRequest(AssertionError):
    """A scripted model got more requests than its script has turns."""


class ScriptedModel(Model):
    """A `Model` that answers from turns, in order; a request past the last turn fails the test.

    Ignores pace: an answer is available at once, one event at a time. Deadlines and retries have no
    effect, so a refusal is an error at the first attempt. To test those, stalls, or the bytes on the
    wire, use `Simulator`.

    turns:       texts, `Turn`s, or one script: a `ScriptLike`, or a function of the request (and of the
                 number of previous requests) that returns a text or a `Turn`
    repeat_last: repeats the last turn instead of raising UnscriptedRequest
    limiter:     limits the calls, as for any `Model`
    observe:     observes the calls, as for any `Model`
    requests:    all requests in order, with repaired conversations, as a vendor would get them
    raises:      InvalidRequest without turns, or for a script among other turns; on a request past
                 the last turn UnscriptedRequest, an AssertionError
    """

    def __init__(
        self,
        *turns: str | Turn | ScriptLike | ScriptFunction,
        model: str = _NAME,
        repeat_last: bool = False,
        limiter: RateLimiter | None = None,
        observe: Observe | None = None,
    ) -> None:
        # The dialect is not used: nothing is encoded.
        provider = Provider(name=_NAME, dialect=OpenAIChat(), base_url="http://127.0.0.1", key_required=False)
        super().__init__(f"{_NAME}:{model}", provider=provider, limiter=limiter, observe=observe)
        self.requests: list[Request] = []
        self._script = _script(turns)
        self._turns = _count(turns, repeat_last)
        self._prompts = PromptTokens()

    def assert_exhausted(self) -> None:
        """Checks that the number of requests equals the number of turns.

        Also detects an UnscriptedRequest that the library or the application caught, as in a sub-agent.

        raises: AssertionError; InvalidRequest for a script without a last turn
        """
        if self._turns is None:
            raise InvalidRequest("a function or a repeated last turn has no end to check.")
        if len(self.requests) != self._turns:
            raise AssertionError(
                f"{counted(len(self.requests), 'request')} for {counted(self._turns, 'turn')} of the script"
            )

    async def warm_up(self) -> None:
        """Does nothing: there is no server."""

    async def load(self) -> None:
        """Does nothing: its calls need no transport."""

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """Answers one request."""
        number = len(self.requests)
        warnings: list[OtherWarning] = []
        # As a vendor would get it: open calls and the like are repaired before any request.
        if not is_plain(request.messages):
            messages, warnings = repaired(request.messages)
            request = msgspec.structs.replace(request, messages=tuple(messages))
        self.requests.append(request)
        if self._turns is not None and number >= self._turns:
            raise UnscriptedRequest(
                f"request {number + 1} to a ScriptedModel with {counted(self._turns, 'turn')}. "
                f"Add a turn, or pass repeat_last=True. The request ends with {_ending(request)}"
            )
        watch: Watch | None = None
        observe = joined(self.observe, (options or {}).get("observe"))
        if observe is not None:
            call_id = str(uuid.uuid4())
            watch = Watch(observe, call_id=call_id, provider=_NAME, model=request.model, request=request)
        turn = self._script.turn(request, number)
        # By message: an agent sends a conversation that grows, and its old part is counted once.
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
            raise InvalidRequest("ScriptedModel does not support Stall. Use Simulator instead.")
        self.error: LLMStreamError | None = None
        self.earlier: Position | None = None
        self._usage = Usage()
        self._events = self._played(turn, request, number, warnings)
        self._request = request
        self._watch = watch
        self._limiter = limiter
        self._permit: Permit | None = None
        self._begun = False

    @property
    def usage(self) -> Usage:
        """Token counts reported so far."""
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
        """None: the answer is not stored."""

    async def steer(self, content: Sequence[Part]) -> None:
        """Refuses: a script is not steered.

        raises: Unsupported
        """
        raise Unsupported("a ScriptedModel cannot be steered; use Simulator over a WebSocket", provider=_NAME)

    async def aclose(self) -> None:
        """As `close`."""
        self.close()

    async def next(self) -> list[Event]:
        """Returns the next event; [] after the last one."""
        if not self._begun:
            await self._begin()
        # Lets other tasks run, as reading a socket would.
        await asyncio.sleep(0)
        events = list(islice(self._events, 1))
        if self._watch is not None:
            self._watch.batch(events)
        if not events or isinstance(events[0], Finish):
            self._ended(left=False)
        return events

    def close(self) -> None:
        """Drops the remaining events."""
        self._events = iter(())
        self._ended(left=True)

    async def _begin(self) -> None:
        """Starts the attempt, once the limiter permits it."""
        self._begun = True
        if self._watch is not None:
            self._watch.attempt_started(_ATTEMPT)
        if self._limiter is not None:
            read, written = _asked_tokens(self._request)
            self._permit = await self._limiter.acquire(input_tokens=read, output_tokens=written)
            if self._watch is not None:
                self._watch.paced_s += self._permit.waited_s

    def _ended(self, *, left: bool) -> None:
        """Releases the limiter and reports the end of the call, once."""
        if self._permit is not None:
            used = (self._usage.input_tokens, self._usage.output_tokens)
            # What a response that was left has used is not known, so the estimate stays taken.
            if left or used == (None, None):
                self._permit.release()
            else:
                read, written = used[0] or 0, used[1] or 0
                self._permit.release(read + written, input_tokens=read, output_tokens=written)
            self._permit = None
        if self._begun and self._watch is not None:
            self._watch.finished(_ATTEMPT, self._usage, self.error, left=left)

    def _played(
        self, turn: Turn, request: Request, number: int, warnings: list[OtherWarning]
    ) -> Iterator[Event]:
        # Scripts may hold any events; readers get the grammar, as from a wire.
        guard = Guard()
        for event in guard.start():
            yield StreamStart([*warnings]) if warnings and isinstance(event, StreamStart) else event
        failure = _failure(turn)
        if not isinstance(turn.fault, Refuse):
            for beat in timeline_of(turn, request, number=number):
                yield from self._noted(guard.feed([_flagged(beat.event)]))
        ending = self._noted(guard.close(self._usage, failure.info))
        if guard.errors:
            self.error = error_from_info(guard.errors[0])
            self.error.provider = self.error.provider or _NAME
            self.error.usage = self._usage
            # Other faults break a response off, which `finished` reports.
            if isinstance(turn.fault, Refuse) and self._watch is not None:
                self._watch.attempt_failed(_ATTEMPT, self.error, None)
        yield from ending

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Finish):
                self._usage = event.usage
        return events


def _flagged(event: Event) -> Event:
    """Marks a call whose input is not JSON as invalid, as decoders do."""
    if isinstance(event, ToolCall) and not event.invalid and not is_json(event.input):
        return msgspec.structs.replace(event, invalid=True)
    return event


def _ending(request: Request) -> str:
    """Describes the last message of a request."""
    last = request.messages[-1]
    calls = [result.name or result.tool_call_id for result in last.tool_results]
    content = f"results of {', '.join(calls)}" if calls else repr(last.text[:200])
    return f"{last.role}: {content}"


def _asked_tokens(request: Request) -> tuple[float, float]:
    """Estimates the input and output tokens of a request for the limiter."""
    prompt = sum(estimated_tokens(message.text) for message in request.messages)
    return prompt, request.settings.max_output_tokens or 0


def _failure(turn: Turn) -> LLMStreamError:
    """Returns the error of a turn that ends without a finish."""
    match turn.fault:
        case Refuse(status=status, message=message, retry_after_s=wait_s):
            headers = {} if wait_s is None else {"retry-after": f"{wait_s:g}"}
            return error_from_value({"message": message}, provider=_NAME, status=status, headers=headers)
        case Cut(clean=False):
            return ConnectionLost("the connection was lost, as scripted", provider=_NAME)
        case _:
            return IncompleteStream("the response is incomplete, as scripted", provider=_NAME)


def _count(turns: tuple[object, ...], repeat_last: bool) -> int | None:
    """Returns the number of turns; None if there is no limit."""
    if repeat_last or not all(isinstance(turn, str | Turn) for turn in turns):
        return None
    return len(turns)


def _script(turns: Iterable[str | Turn | ScriptLike | ScriptFunction]) -> ScriptLike:
    plain: list[Turn] = []
    scripts: list[ScriptLike | ScriptFunction] = []
    for turn in turns:
        match turn:
            case str():
                plain.append(Turn(text=turn))
            case Turn():
                plain.append(turn)
            case _:
                scripts.append(turn)
    if len(scripts) == 1 and not plain:
        return as_script(scripts[0])
    if scripts or not plain:
        raise InvalidRequest("ScriptedModel takes at least one text or Turn, or one script alone.")
    return Script(tuple(plain))
