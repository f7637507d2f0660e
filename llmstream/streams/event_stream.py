"""The handle of a stream: its events as they are read, and the turns that tools add."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

from llmstream.accumulate import Accumulator
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message
from llmstream.dialects.errors import request_id
from llmstream.errors import DeadlineExceeded, InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.events import Event, FinishReason, Usage, Warning
from llmstream.streams.call import Call, CallingModel, ResponseInfo, ResumeToken, mark_message, rate_headers
from llmstream.streams.conversation import CONTINUE_NOTE, Continuation, Conversation, going_on
from llmstream.streams.history import Repairs, kept_of_a_broken_turn
from llmstream.streams.options import Options, StreamOptions, make_request, with_defaults
from llmstream.streams.reading import (
    CUT_SHORT,
    AsyncOnly,
    Reading,
    final_object,
    growing_objects,
    may_be_repaired,
    repair_message,
    require_asyncio,
    required_output,
    text_deltas,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    from llmstream.tools import Approve, Approver, Deny, ToolCallStatus

    T = TypeVar("T", default=Any)
    Item = TypeVar("Item")
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["EventStream"]


class EventStream(AsyncOnly, Generic[T]):
    """A response as it comes, and the conversation it belongs to.

    `EventStream[City]` is one whose answer is to be a City: `output=City`. Without `output`, T is Message.

    Iterate it for events; leave it, by `async with`, break or exception, and the socket closes
    at once. `call_tools()` runs what the model asked for, after which `async for` goes on with
    the next response; an empty list means that the conversation is done.
    """

    _call: Call | None = None  # on the class: `__del__` runs also where `__init__` raised
    _batch: list[Event]

    def __init__(
        self,
        model: CallingModel,
        messages: Sequence[Message],  # nobody changes them while it lives: copies, or a run's own
        options: Options,
        *,
        started: float | None = None,  # loop time from which the total deadline counts; else the first read
        token: ResumeToken | None = None,  # where the first answer, which is there already, is read on
        whole: bool = False,  # or from its beginning
        repairs: Repairs | None = None,  # of the run whose history the messages are
    ) -> None:
        self.model = model
        self.total_usage = Usage()
        self._spent: list[tuple[str, Usage]] = []  # model and tokens of each response that is over
        self._given = frozenset(options)  # the rest are the model's defaults
        self._conversation = Conversation(messages, with_defaults(model.options, options), repairs)
        self._asked = len(self._conversation.messages)
        self._made_fold, self._eager = self._conversation.outfit()
        self._started = started
        self._reader = Reading("stream")
        self._reading = False
        self._over = self._left = False
        self._forgotten = False  # the loop closed what read it, because nobody held that any more
        self._token, self._whole = token, whole
        self._continues: Continuation | None = None
        self._current: Event | None = None
        self._marked: Message | None = None
        self._begin_anew()
        self._conversation.check(model.name, answered=token is not None)  # wrong options fail here and now

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._check_unread()
        return self._events()

    def _check_unread(self) -> None:
        """Refuses a second reader of a response; one that was left simply has nothing more to give.

        raises: InvalidRequest
        """
        if self._over and not self._left and not self.pending_calls:  # which somebody may still decide about
            raise InvalidRequest(
                "this stream was read to its end, and a response is read once. What came is in `text`, "
                "`message` and `messages()`; for another answer make another stream."
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._call is not None and (self._forgotten or not self._over):
            self._call.close()
            warnings.warn(
                "an EventStream was dropped while it was read; use `async with` to leave it at once",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def aclose(self) -> None:
        """Leaves the stream: the socket closes now, what came stays. May be called again."""
        self._forgotten = False
        self._leave()
        events = self._reader.events
        if events is not None and not self._reader.stepping:  # else its reader ends it
            await events.aclose()
            self._reader.events = None
        try:
            if self._left and self._call is not None:
                await self._call.aclose()
        finally:
            await self._drop_eager()

    async def next(self) -> bool:
        """Goes on to the next event, which is then `current`; False when this response is over."""
        return await self._reader.next(self._events)

    def text_deltas(self) -> AsyncGenerator[str]:
        """Only the fragments of text."""
        return text_deltas(self.__aiter__)

    async def collect(self) -> Message:
        """Reads this response to its end and gives the whole message.

        raises: LLMStreamError where the stream failed; `.partial` holds what came. InvalidRequest where
                the stream was left: half of an answer is in `message`, and is not the answer
        """
        async for _ in self._events():
            pass
        if self.error is not None and not self._conversation.quiet:
            raise self.error
        if self._left:
            raise InvalidRequest("the stream was left before its end; what came is in `message`")
        return self.message

    @overload
    def objects(self: EventStream[list[Item]]) -> AsyncGenerator[Item]: ...

    @overload
    def objects(self) -> AsyncGenerator[T]: ...

    def objects(self) -> AsyncGenerator[Any]:
        """The answer as a value of `output`'s type, as it grows.

        Of a list, set or open tuple each element once, when it is whole and fits. Of anything else the
        value so far, whenever it has changed: Structs and dataclasses as instances in which what has
        not come is `msgspec.UNSET` (and `__post_init__` has not run), typed dicts without the keys that
        have not come, arrays as lists. Text grows; numbers, enums, dates and the like come whole.
        The last value is the validated one, also kept as `object`.

        An answer that does not fit is shown to the model with what is wrong, and asked for again: a new
        turn of the conversation, whose values begin anew; `Output(T, repair=)` says how often. Where the
        model calls tools instead, this ends quietly; go on with `call_tools()`.

        raises: InvalidOutput when that did not help; LLMStreamError where the stream failed;
                InvalidRequest where no `output` was asked for, before anything is sent
        """
        conversation = self._conversation
        output = required_output(conversation.output)
        repairs = output.repair

        def ask_again(error: InvalidOutput) -> bool:
            nonlocal repairs
            if repairs <= 0 or self.finish_reason in (None, *CUT_SHORT) or not may_be_repaired(self.message):
                return False
            repairs -= 1
            self._next_turn(repair_message(error))
            return True

        return growing_objects(
            self,
            self._events,
            output,
            waits=lambda: bool(self.pending_calls),
            ask_again=ask_again,
            quiet=conversation.quiet,
        )

    async def _events(self) -> AsyncGenerator[Event]:
        if self._over:
            return
        if self._reading:
            raise InvalidRequest(
                "this stream is being read already, or was left by `break` just now. One reader at a time; "
                "what has come is in `message`, and `async with` leaves at once."
            )
        self._reading = True
        reader = require_asyncio()
        try:
            call = self._begin()
            while batch := await call.next():
                if self._continues is not None:
                    batch = self._announced(batch, self._continues)
                self._batch, self._seen, self._folded = batch, 0, 0
                if self._eager is not None:
                    self._eager.see(batch)
                for self._seen, event in enumerate(batch, 1):  # cheaper than adding 1 each time
                    yield event
                self._catch_up()
                self._let_go()
                batch = []
            self._end(call)
        except GeneratorExit:
            self._forgotten = not self._over and asyncio.current_task() is not reader
            raise
        finally:
            self._reading = False
            try:
                if not self._over:
                    self._leave()
                    if self._call is not None:
                        await self._call.aclose()
            finally:
                if self._left or self.error is not None:
                    await self._drop_eager()
        if call.error is not None and not self._conversation.quiet:
            raise call.error

    def _announced(self, batch: list[Event], continues: Continuation) -> list[Event]:
        """The batch, marked as what goes on with an answer of another model."""
        batch = continues.mark(batch)
        if continues.done:
            self._continues = None
        return batch

    def _begin(self) -> Call:
        if self._call is None:
            model, options, token = self.model, self._conversation.options, self._token
            request = self._conversation.request(model.name, answered=token is not None)
            if self._started is None:
                self._started = asyncio.get_running_loop().time()
            self._conversation.limit(model.deadlines, self._started)
            if token is None:
                self._call = model.call(request, options, started=self._started)
            else:
                self._token = None  # further turns are asked for
                self._call = model.reattached_call(
                    token, request, options, whole=self._whole, started=self._started
                )
        return self._call

    def _end(self, call: Call) -> None:
        """The response is over: its message joins the conversation, unless it was left before."""
        fold = self._fold
        if call.error is not None:
            call.error.partial = fold.partial
            call.error.usage = fold.usage
        if self._left:
            return
        self._over = True
        self._spend(fold.usage)
        if call.error is not None:
            self._conversation.messages += kept_of_a_broken_turn(fold.partial)
        elif fold.partial.parts:
            self._conversation.messages.append(fold.partial)

    def _leave(self) -> None:
        """Closes the socket now; what came by then joins the conversation."""
        if self._over:
            return
        self._over = self._left = True
        self._catch_up()
        if self._call is not None:
            self._call.close()
            self._spend(self.usage)
            self._conversation.messages += kept_of_a_broken_turn(self._fold.partial)

    async def steer(self, message: str | Message) -> None:
        """Gives the model a word of the user while it answers; returns once the server has taken it.

        The model stops where it can, and continues with the input in the same stream: what
        it said stays, a `custom` event of kind "openai.steering" marks the place, further blocks follow.
        Only over a WebSocket: `Model(..., transport="websocket")`.

        raises: Unsupported for any other model; InvalidRequest where no answer is under way; what the server
                says against it, after which the answer goes on as it was
        """
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"an answer is steered by a str or a Message, got {message!r}")
        if self._over or self._call is None:
            raise InvalidRequest("no answer is under way that could be steered. Read the stream first.")
        await self._call.steer(Message.user(message).parts if isinstance(message, str) else message.parts)

    def _spend(self, usage: Usage) -> None:
        """Counts the tokens of a response that is over."""
        self.total_usage += usage
        self._spent.append((self._answered_by(), usage))

    def cost(self, price: Callable[[str, Usage], float | None]) -> float | None:
        """What the responses so far may have cost, the one under way included; None where no price is known.

        Each is priced by itself and by the model that gave it, so that the higher price of a long
        prompt holds for that one only.

        price: as for `Agent(price=...)`: "provider:model" and the tokens of one response to an amount;
               `llmstream.prices.price` knows the list prices
        """
        spent = list(self._spent)
        if self._call is not None and not self._over:
            spent.append((self._answered_by(), self.usage))
        known = [cost for model, usage in spent if (cost := price(model, usage)) is not None]
        return sum(known) if known else None

    async def cancel(self) -> bool:
        """Leaves the stream, and tells a vendor that keeps the answer to make no more of it.

        returns: whether there was somebody to tell; any other answer ends with its socket
        raises:  what the vendor says against it; TransportError
        """
        over, token = self.finish_reason is not None, self._token_at(end=True)
        await self.aclose()
        if over or token is None:
            return False
        await self.model.cancel(token)
        return True

    def continue_with(
        self, model: str | CallingModel, *, note: str = CONTINUE_NOTE, **options: Unpack[StreamOptions]
    ) -> EventStream[Message]:
        """A stream in which another model goes on with this answer, which broke off or was left.

        It has this stream's conversation, with the text that had come as the assistant's last words,
        and its options, of which the given ones win. Models that take the beginning of their own
        answer (Claude before 4.6, while it does not think) go on in it; others are told by a message
        of the user. The events of the new stream are those of the rest; its `stream-start` warns
        of what it is, and its first text carries `{"llmstream": {"continues": "PROVIDER:MODEL"}}`.
        Where no text had come, the question is asked anew.

        note:   what models are told that take no beginning
        raises: InvalidRequest for an answer that is not over, did not break off, or is to be of a type
        """
        if not self._over or not (self._left or self.error is not None):
            raise InvalidRequest("this answer did not break off; only one that did can be gone on with")
        own, defaults = self._conversation.options, self.model.options
        kept = {k: v for k, v in own.items() if k in self._given or k not in defaults}
        given = cast(Options, {**kept, **options})
        if given.get("output") is not None:
            raise InvalidRequest("an answer of a type is not gone on with: half of it fits none. Ask anew.")
        other = self.model.other(model) if isinstance(model, str) else model
        messages, length = self._conversation.messages, len(self.text)
        if length:
            prefix = other.provider.dialect.takes_prefix(make_request(other.name, messages, given))
            messages = going_on(messages, takes_prefix=prefix, note=note)
        stream: EventStream[Message] = EventStream(other, copy_messages(messages), given)
        code = self.error.code if self.error is not None else "left"
        stream._continues = Continuation(f"{self.model.provider.name}:{self.model.name}", code, length)
        return stream

    def messages(self) -> list[Message]:
        """The whole conversation: prompt, answers, tool results. Copies; the caller may keep them."""
        return self._messages_from(0)

    def added(self) -> list[Message]:
        """What has come behind the prompt: answers and tool results. Copies."""
        return self._messages_from(self._asked)

    def _messages_from(self, start: int) -> list[Message]:
        messages = copy_messages(self._conversation.messages[start:])
        if not self._over:
            messages += kept_of_a_broken_turn(self._folded_now().partial)
        return messages

    async def _drop_eager(self) -> None:
        """Cancels calls that began before their response was over, and waits for their cleanup."""
        eager, self._eager = self._eager, None
        if eager is not None:
            await eager.aclose()

    @property
    def pending_calls(self) -> list[ToolCall]:
        """Calls of a response that is over and that have no result yet."""
        if not self._over or self._left or self.error is not None:
            return []
        return self._fold.pending_calls

    async def call_tools(
        self, decisions: Mapping[str, Approve | Deny | bool] = {}, *, approve: Approver | None = None
    ) -> list[ToolCallStatus]:
        """Runs the calls of this response, in parallel, and gives their statuses in call order.

        Reads the response to its end first, if that is still to come. Afterwards the stream
        goes on with the next response; [] means that there was nothing to run. Nothing runs
        after a failure. Each call runs once, however often this is called; calls of eager tools
        began when they were complete, and their results are waited for.

        A call that needs approval runs when somebody agrees: `approve` is asked, as that of an agent.
        Without it, or where it gives None, the call stays in `pending_calls` and the stream does not
        go on; call this again with what was decided.

        decisions: by the id of the call; True and False for `Approve()` and `Deny()`
        raises:    InvalidRequest for a decision about a call that does not wait, and for approved arguments
                   that do not fit; DeadlineExceeded where
                   the total deadline passes, whose calls are cancelled and have results that say so
        """
        if not self._over:
            await self.collect()
        if not self.pending_calls:
            return []
        begun, self._eager = self._eager, None
        talk, said = self._conversation, self._fold.partial
        total = asyncio.timeout_at(talk.deadline)
        try:
            async with total:
                statuses = await self._fold.call_tools(
                    decisions, approve=approve, begun=begun, context=talk.tool_context
                )
        except BaseException as error:
            self._show_as_run(said)
            self._answer()  # the calls that were cut off have results that say so
            if isinstance(error, TimeoutError) and total.expired():
                raise DeadlineExceeded(
                    "the tools took longer than the total deadline of the stream", reason="total"
                ) from None
            raise
        self._show_as_run(said)
        if statuses:
            self._answer()
        return statuses

    def _show_as_run(self, said: Message) -> None:
        """The conversation has calls with the arguments that were approved, which may be others."""
        messages, shown = self._conversation.messages, self._fold.partial
        if shown is not said and messages and messages[-1] is said:
            messages[-1] = shown

    def add_tool_results(self, *results: ToolResult) -> None:
        """Answers calls that the caller runs itself; when none is pending, the stream goes on.

        raises: InvalidRequest where a result belongs to no pending call
        """
        pending = {call.id for call in self.pending_calls}
        stray = [r.tool_call_id for r in results if r.tool_call_id not in pending]
        if stray:
            wanted = ", ".join(sorted(pending)) or "none"
            raise InvalidRequest(f"no call {stray[0]!r} waits for a result; pending: {wanted}")
        self._fold.add_results(results)
        self._answer()

    def _answer(self) -> None:
        """Once every call has its result, the results join the conversation and the next turn may begin."""
        answer = self._fold.tool_message
        if answer is None or self._fold.pending_calls:
            return
        self._next_turn(answer)

    def _next_turn(self, message: Message) -> None:
        """Adds a message to the conversation; the stream goes on with the answer to it."""
        self._conversation.messages.append(message)
        self._made_fold, self._eager = self._conversation.outfit()
        self._call, self._over, self._reader.events = None, False, None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing of the answer has been read yet."""
        # Events are folded when a view is asked for, and at a batch's end: many at once are cheaper.
        self._batch = []
        self._seen = 0  # of the batch, given to the reader
        self._folded = 0

    # -- views of what has been read

    @property
    def _fold(self) -> Accumulator:
        """What the events are folded into; one that knows of no tools is made when it is wanted."""
        if self._made_fold is None:
            self._made_fold = Accumulator()
        return self._made_fold

    def _catch_up(self) -> None:
        """Folds what the reader has been given since the last time."""
        if self._folded < self._seen:
            batch = self._batch
            self._fold.feed_many(batch[self._folded : self._seen] if len(batch) > 1 else batch)
            self._folded = self._seen
            message = self._fold.message
            if message is not None and message is not self._marked:  # once, when finish has come
                mark_message(message, self.response)
                self._marked = message

    def _let_go(self) -> None:
        """Keeps nothing of a batch that has been given and folded: the next one can take its memory."""
        self._current = self.current
        self._begin_anew()

    def _folded_now(self) -> Accumulator:
        self._catch_up()
        return self._fold

    @property
    def current(self) -> Event | None:
        """The event read last, by `next()` or by iteration."""
        return self._batch[self._seen - 1] if self._seen else self._current

    @property
    def text(self) -> str:
        """The text of this response as far as it has been read."""
        return self._folded_now().text

    @property
    def reasoning(self) -> str:
        """The text of the reasoning of this response as far as it has been read."""
        return self._folded_now().reasoning

    @property
    def warnings(self) -> list[Warning]:
        """What was left out of this response's request or changed in it, and whatever else was notable."""
        return list(self._folded_now().warnings)

    @property
    def response(self) -> ResponseInfo:
        """Who answers, the vendor's ids for it, and its rate limits, as far as they are known.

        After a fallback it is the model that answers. The message carries the same, without headers
        and times, as `message.metadata["llmstream"]`.
        """
        self._catch_up()
        fold, call = self._fold, self._call
        provider, _, model = self._answered_by().partition(":")
        headers = {} if call is None else call.headers
        failed = None if call is None or call.error is None else call.error.request_id
        return ResponseInfo(
            provider=provider,
            model=model,
            id=fold.response_id,
            model_id=fold.model_id,
            request_id=failed or request_id(headers),
            timestamp=fold.timestamp,
            headers=rate_headers(headers),
        )

    def _answered_by(self) -> str:
        """ "provider:model" of who answers, as far as it is known."""
        by_another = None if self._call is None else self._call.answered_by
        return by_another or f"{self.model.provider.name}:{self.model.name}"

    @property
    def message(self) -> Message:
        """The message of this response as far as it has been read; complete once it is over."""
        return self._folded_now().partial

    @property
    def usage(self) -> Usage:
        """Tokens of this response as far as the vendor has said."""
        fold = self._folded_now()
        return fold.usage if fold.finished or self._call is None else self._call.usage

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model ended; None while it has not."""
        return self._folded_now().finish_reason

    @property
    def error(self) -> LLMStreamError | None:
        """Why the stream failed, or None."""
        return self._call.error if self._call is not None else None

    @property
    def accumulator(self) -> Accumulator:
        """The fold of this response: tool inputs, warnings, response id and so on."""
        return self._folded_now()

    @property
    def object(self) -> T:
        """The validated answer, of `output`'s type, once the response is over.

        raises: InvalidOutput where it does not fit, with the message in `partial`; the stream's own
                error where it failed; InvalidRequest while it is still to be read
        """
        output = required_output(self._conversation.output)
        if not self._over:
            raise InvalidRequest("the answer is not over: read it, by objects() or collect(), then ask again")
        if self.error is not None:
            raise self.error
        try:
            found: T = final_object(self.message, self.finish_reason, output)
            return found
        except InvalidOutput as error:
            error.provider, error.partial, error.usage = self.model.provider.name, self.message, self.usage
            raise

    def tool_input(self, call_id: str) -> Any:
        """The input of a call so far, as a JSON value: the best that can be made of it at any event.

        The raw text is `accumulator.tool_input`. Objects and arrays go on growing: copy what is to
        be kept, change nothing. None of an unknown call, and while nothing can be shown.
        """
        self._catch_up()
        return self._fold.tool_value(call_id)

    @property
    def resume_token(self) -> ResumeToken | None:
        """Where the reader is in an answer that its vendor keeps, for `Model.reattach`; else None.

        There is one from the first event on that names the response. Keep the latest: what came
        after it is what is given again.
        """
        return self._token_at(self._seen == len(self._batch))

    def _token_at(self, end: bool) -> ResumeToken | None:
        call, model = self._call, self.model
        if call is None:
            return self._token
        position = call.position if end else call.earlier
        if position is None:
            return None
        return ResumeToken(model.provider.name, model.name, position.response_id, position.sequence_number)
