"""`EventStream`: reads a response as events, accumulates it, runs tools, and continues with the next turn."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, overload

from llmstream.accumulate.accumulator import Accumulator
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message, copy_messages
from llmstream.errors import DeadlineExceeded, InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.events import Event, Finish, FinishReason, Usage, Warning
from llmstream.other_sdks import STREAM, suggests
from llmstream.streams.call import Call, CallingModel, ResponseInfo, ResumeToken, mark_message, response_info
from llmstream.streams.conversation import CONTINUE_NOTE, Batch, ContinuationMarks, Conversation
from llmstream.streams.history import Repairs, remains_of_broken_turn
from llmstream.streams.options import Options, StreamOptions
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
from llmstream.streams.showing import stream_form, stream_table
from llmstream.warming import transport_is_loaded

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    from llmstream.chats.chat import Chat
    from llmstream.tools import Approve, Approver, Deny, ToolCallStatus

    T = TypeVar("T", default=Any)
    Item = TypeVar("Item")
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["EventStream"]

# Events of a complete response that are not accumulated before its message is read: some 16 KiB of its body.
_MOST_HELD: Final = 256


@suggests(STREAM)
class EventStream(AsyncOnly, Generic[T]):
    """A streamed response and its conversation.

    `EventStream[City]` has an answer of type City: `output=City`. Without `output`, T is Message.

    Iterate it for events. Leaving it by `async with`, break or exception closes the socket at once.
    `call_tools()` runs the requested calls, after which `async for` continues with the next response;
    it returns an empty list when the conversation is complete.
    """

    _call: Call | None = None  # on the class: `__del__` also runs if `__init__` raised

    def __init__(
        self,
        model: CallingModel,
        messages: Sequence[Message],  # never shared with the caller: copies, or the messages of a run
        options: Options,
        *,
        started: float | None = None,  # loop time of the total deadline's start; default: the first read
        token: ResumeToken | None = None,  # position in a stored answer to continue reading from
        from_start: bool = False,  # read the stored answer from its beginning
        repairs: Repairs | None = None,  # of the run that owns the messages
        chat: Chat | None = None,  # precedes the messages, and receives those that are added
    ) -> None:
        self.model = model
        self._spent: list[tuple[str, Usage]] = []  # model and tokens of each finished response
        self._conversation = Conversation(messages, options, model, repairs=repairs, chat=chat)
        self._asked = len(self._conversation.messages)
        self._turn = self._conversation.next_turn()
        self._started = started
        self._reader = Reading("stream")
        self._reading = False
        self._over = self._left = False
        self._unadded = False  # whether the conversation lacks the message of the completed response
        self._forgotten = False  # the event loop closed the reader after its last reference was dropped
        self._token, self._from_start = token, from_start
        self._continues: ContinuationMarks | None = None
        self._conversation.check(model.name, answered=token is not None)  # invalid options fail at once

    def __repr__(self) -> str:
        return stream_form(self, left=self._left, begun=self._call is not None)

    def _repr_html_(self) -> str | None:
        """The response as a table, for notebooks; None before its end."""
        return stream_table(self) if self._over else None

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._check_unread()
        return self._events()

    def _check_unread(self) -> None:
        """Refuses to read a completed response again; iterating a closed one yields nothing.

        raises: InvalidRequest
        """
        if self._over and not self._left and not self.pending_calls:  # pending calls may still be approved
            raise InvalidRequest(
                "this stream has been read to its end, and a response can be read only once. Its content is "
                "in `text`, `message` and `messages()`; create a new stream for another answer."
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # The loop may already be closed, so only close the socket and await nothing.
        if self._call is not None and (self._forgotten or not self._over):
            self._call.close()
            warnings.warn(
                "an EventStream was dropped while it was read; use `async with` to close it at once",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def aclose(self) -> None:
        """Closes the stream: disconnects at once; the content so far stays available. Idempotent."""
        self._forgotten = False
        self._leave()
        events = self._reader.events
        # A running generator cannot be closed from outside: Python raises RuntimeError.
        if events is not None and not self._reader.stepping:  # otherwise its reader ends it
            await events.aclose()
            self._reader.events = None
        try:
            if self._left and self._call is not None:
                await self._call.aclose()
        finally:
            await self._drop_eager()

    async def next(self) -> bool:
        """Reads the next event into `current`; False at the end of this response."""
        return await self._reader.next(self._events)

    def text_deltas(self) -> AsyncGenerator[str]:
        """Yields only the text deltas."""
        return text_deltas(self.__aiter__)

    async def collect(self) -> Message:
        """Reads this response to its end and returns the complete message.

        raises: LLMStreamError if the stream failed, with the content so far in `.partial`; InvalidRequest
                if the stream was closed early, because `message` is incomplete then
        """
        async for _ in self._events():
            pass
        if self.error is not None and not self._conversation.quiet:
            raise self.error
        if self._left:
            raise InvalidRequest("the stream was closed before its end; the content so far is in `message`")
        return self.message

    async def display(self) -> Message:
        """Shows this response as it grows and returns the message, as `collect` does.

        It is Markdown in a notebook, and on a terminal with the extra `cli`; elsewhere plain text on standard
        output. With an `output` type it is JSON. Raises InvalidRequest for a response that is over.
        """
        from llmstream.display.showing import show  # imported only on use

        await show(self, markdown=self._conversation.output is None)
        return await self.collect()

    @overload
    def objects(self: EventStream[list[Item]]) -> AsyncGenerator[Item]: ...

    @overload
    def objects(self) -> AsyncGenerator[T]: ...

    def objects(self) -> AsyncGenerator[Any]:
        """Yields the answer as a growing value of `output`'s type.

        For a list, set or open tuple it yields each element once, when it is complete and fits. For any
        other type it yields the value so far after each change: Structs and dataclasses as instances whose
        missing fields are `msgspec.UNSET` (and `__post_init__` has not run), typed dicts without missing
        keys, arrays as lists. Text grows; numbers, enums, dates and the like appear only complete.
        The last value is validated and also available as `object`.

        An answer that does not fit is returned to the model with the validation error, in a new turn whose
        values start again; `Output(T, repair=)` sets how many times. If the model calls tools instead, this
        ends without an error; continue with `call_tools()`.

        raises: InvalidOutput if the repairs failed; LLMStreamError if the stream failed;
                InvalidRequest without an `output`, before anything is sent
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

    def _events(self) -> AsyncGenerator[Event]:
        return self._read(whole=False)

    def _batches(self) -> AsyncGenerator[Batch]:
        """Yields the events as they arrive together, for an agent's run: `Batch.read` counts what was read.

        To pass each of them through the generators of a run takes as long as to decode and read it.
        """
        return self._read(whole=True)

    async def _read(self, *, whole: bool) -> AsyncGenerator[Any]:
        if self._over:
            return
        if self._reading:
            raise InvalidRequest(
                "this stream is already being read, or was just left by `break`. Use one reader at a time; "
                "the content so far is in `message`, and `async with` leaves the stream at once."
            )
        self._reading = True
        reader = require_asyncio()
        try:
            if not transport_is_loaded():  # in a thread: importing takes 0.1 s, which would block the loop
                await self.model.load()
                if self._over:  # closed meanwhile
                    return
            # Nothing is sent before this: a stream that is never read costs nothing.
            call, turn = self._begin(), self._turn
            while batch := await call.next():
                if turn.batch:  # a finish that was not the end
                    self._catch_up()
                if self._continues is not None:
                    batch = self._continues.mark(batch)
                turn.begin(batch)
                self._conversation.feed(batch)
                if whole:
                    yield Batch(batch, turn)
                    turn.seen = len(batch)
                else:
                    for turn.seen, event in enumerate(batch, 1):  # cheaper than to add 1 for each event
                        yield event
                # The last events are accumulated when a view of them is read: many readers need none.
                if type(batch[-1]) is not Finish or len(batch) > _MOST_HELD:
                    self._catch_up()
                    turn.let_go()
                batch = []  # so that the next one can reuse its memory
            self._end(call)
        except GeneratorExit:
            # Closed by the garbage collector, in a task of the loop: `break` without `async with`.
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

    def _begin(self) -> Call:
        if self._call is None:
            model, options, token = self.model, self._conversation.options, self._token
            request = self._conversation.request(model.name, answered=token is not None)
            if self._started is None:
                self._started = asyncio.get_running_loop().time()
                self._conversation.begin()
            self._conversation.limit(model.deadlines, self._started)
            if token is None:
                self._call = model.call(request, options, started=self._started)
            else:
                self._token = None  # further turns are new requests
                self._call = model.reattached_call(
                    token, request, options, from_start=self._from_start, started=self._started
                )
        return self._call

    def _end(self, call: Call) -> None:
        """Ends the turn of a completed response, unless the stream is closed."""
        if call.error is not None:
            call.error.partial, call.error.usage = self._fold.partial, self._fold.usage
        if self._left:
            return
        self._over = True
        if call.error is not None:
            self._spend(self._fold.usage)
            # Only what the next request may contain: text, but no incomplete call.
            self._conversation.add(remains_of_broken_turn(self._fold.partial))
            return
        self._unadded = True
        last = self._turn.current
        self._spend(last.usage if type(last) is Finish else self._fold.usage)
        if self._conversation.has_chat:
            self._catch_up()

    def _leave(self) -> None:
        """Closes the socket at once and adds the content so far to the conversation."""
        if self._over:
            return
        self._over = self._left = True
        if self._call is not None:
            self._call.close()
            self._spend(self.usage)
            self._conversation.add(remains_of_broken_turn(self._fold.partial))

    async def steer(self, message: str | Message) -> None:
        """Sends a user message while the model responds; returns once the server has accepted it.

        The model stops where it can and continues in the same stream with the message: the content so far
        stays, a `custom` event of kind "openai.steering" marks the place, further blocks follow.
        Only over a WebSocket: `Model(..., transport="websocket")`.

        raises: Unsupported for any other model; InvalidRequest if no response is in progress; the server's
                error if it rejects the message, after which the response continues unchanged
        """
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"steer() takes a str or a Message, got {message!r}")
        if self._over or self._call is None:
            raise InvalidRequest("no response is in progress that could be steered. Read the stream first.")
        await self._call.steer(Message.user(message).parts if isinstance(message, str) else message.parts)

    def _spend(self, usage: Usage) -> None:
        """Records the tokens of a completed response."""
        self._spent.append((self._answered_by(), usage))

    @property
    def total_usage(self) -> Usage:
        """The tokens of all finished responses."""
        return sum((usage for _, usage in self._spent), Usage())

    def cost(self, price: Callable[[str, Usage], float | None]) -> float | None:
        """The estimated cost of the responses so far, including the current one; None if no price is known.

        Each response is priced separately, by the model that produced it, so that the higher price of a long
        prompt applies only to its own response.

        price: as for `Agent(price=...)`: maps "provider:model" and the tokens of one response to an amount;
               `llmstream.prices.price` has the list prices
        """
        spent = list(self._spent)
        if self._call is not None and not self._over:
            spent.append((self._answered_by(), self.usage))
        known = [cost for model, usage in spent if (cost := price(model, usage)) is not None]
        return sum(known) if known else None

    async def cancel(self) -> bool:
        """Closes the stream, and cancels the response at a vendor that stores it.

        returns: whether the vendor was sent a cancellation; any other response ends with its socket
        raises:  the vendor's error; TransportError
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
        """A stream in which another model continues this answer, which was interrupted or closed early.

        It has this stream's conversation, ending in the text so far as an assistant message, and its
        options, which `options` override. Models that accept the beginning of their own answer (Claude
        before 4.6, without reasoning) continue it; others get a user message. The new stream yields only
        the rest: its `stream-start` has a warning, and its first text has
        `{"llmstream": {"continues": "PROVIDER:MODEL"}}`. Without any text so far, the question is sent again.

        note:   the user message for models that do not accept a beginning
        raises: InvalidRequest for an answer that is in progress, was not interrupted, or has an output type
        """
        if not self._over or not (self._left or self.error is not None):
            raise InvalidRequest(
                "this answer was not interrupted: continue_with() continues only one that failed or was "
                "closed early"
            )
        other, length = self.model.other(model) if isinstance(model, str) else model, len(self.text)
        messages, given = self._conversation.continued(other, options, note=note if length else None)
        stream: EventStream[Message] = EventStream(other, messages, given)
        code = self.error.code if self.error is not None else "left"
        stream._continues = ContinuationMarks(f"{self.model.provider.name}:{self.model.name}", code, length)
        return stream

    def messages(self) -> list[Message]:
        """Copies of the complete conversation: prompt, answers, tool results."""
        return self._messages_from(0)

    def added(self) -> list[Message]:
        """Copies of the messages after the prompt: answers and tool results."""
        return self._messages_from(self._asked)

    def _messages_from(self, start: int) -> list[Message]:
        self._catch_up()
        messages = copy_messages(self._conversation.messages[start:])
        if not self._over:
            messages += remains_of_broken_turn(self._fold.partial)
        return messages

    async def _drop_eager(self) -> None:
        """Cancels calls of eager tools and waits for their cleanup."""
        eager, self._turn.eager = self._turn.eager, None
        if eager is not None:
            await eager.aclose()

    @property
    def pending_calls(self) -> list[ToolCall]:
        """The calls of a completed response that have no result yet."""
        if not self._over or self._left or self.error is not None:
            return []
        return self._fold.pending_calls

    async def call_tools(
        self, decisions: Mapping[str, Approve | Deny | bool] = {}, *, approve: Approver | None = None
    ) -> list[ToolCallStatus]:
        """Runs the calls of this response in parallel and returns their statuses in call order.

        Reads the response to its end first if needed. Afterwards the stream continues with the next
        response; [] means that there was nothing to run. Nothing runs after a failure. Each call runs
        only once. Calls of eager tools started when they were complete, and are awaited here.

        A call that needs approval runs if `approve` allows it, as for an agent. Without `approve`, or if it
        returns None, the call stays in `pending_calls` and the stream does not continue; call this again
        with the decision.

        decisions: by the id of the call; True and False for `Approve()` and `Deny()`
        raises:    InvalidRequest for a decision about a call that does not wait, and for approved arguments
                   that do not fit; DeadlineExceeded if the total deadline passes: then the calls are
                   cancelled and have error results
        """
        if not self._over:
            await self.collect()
        if not self.pending_calls:
            return []
        begun, self._turn.eager = self._turn.eager, None
        conversation, message = self._conversation, self._fold.partial
        total = asyncio.timeout_at(conversation.deadline)
        try:
            async with total:
                statuses = await self._fold.call_tools(
                    decisions, approve=approve, begun=begun, context=conversation.tool_context
                )
        except BaseException as error:
            self._show_as_run(message)
            self._continue_if_settled()  # cancelled calls have error results
            if isinstance(error, TimeoutError) and total.expired():
                raise DeadlineExceeded(
                    "the tools exceeded the total deadline of the stream", reason="total"
                ) from None
            raise
        self._show_as_run(message)
        if statuses:
            self._continue_if_settled()
        return statuses

    def _show_as_run(self, before: Message) -> None:
        """Updates the calls in the conversation to the approved arguments, which may differ."""
        messages, shown = self._conversation.messages, self._fold.partial
        if shown is not before and messages and messages[-1] is before:
            messages[-1] = shown

    def add_tool_results(self, *results: ToolResult) -> None:
        """Adds results of calls that the caller executed; once no call is pending, the stream continues.

        raises: InvalidRequest if a result belongs to no pending call
        """
        pending = {call.id for call in self.pending_calls}
        stray = [r.tool_call_id for r in results if r.tool_call_id not in pending]
        if stray:
            wanted = ", ".join(sorted(pending)) or "none"
            raise InvalidRequest(f"no call {stray[0]!r} waits for a result; pending: {wanted}")
        self._fold.add_results(results)
        self._continue_if_settled()

    def _continue_if_settled(self) -> None:
        """Once every call has a result, adds the results to the conversation and begins the next turn."""
        results = self._fold.tool_message
        if results is None or self._fold.pending_calls:
            return
        self._next_turn(results)

    def _next_turn(self, message: Message) -> None:
        """Adds a message to the conversation; the stream continues with the response to it."""
        self._catch_up()
        self._conversation.add([message])
        self._turn = self._conversation.next_turn(self._turn.current)
        self._call, self._over, self._reader.events = None, False, None

    # The response so far.

    @property
    def _fold(self) -> Accumulator:
        self._catch_up()
        return self._turn.fold

    def _catch_up(self) -> None:
        """Accumulates the events that were read since the last call; adds a complete message."""
        turn = self._turn
        if turn.catch_up():
            mark_message(turn.fold.partial, self._answered_by(), turn.fold, self._call)
        if self._unadded:
            self._unadded = False
            turn.let_go()
            self._conversation.add([turn.fold.partial] if turn.fold.partial.parts else [])

    @property
    def current(self) -> Event | None:
        """The last event read, by `next()` or by iteration."""
        return self._turn.current

    @property
    def text(self) -> str:
        """The text of this response so far."""
        return self._fold.text

    @property
    def reasoning(self) -> str:
        """The reasoning text of this response so far."""
        return self._fold.reasoning

    @property
    def warnings(self) -> list[Warning]:
        """What was omitted from the request or changed in it, and other warnings of this response."""
        return list(self._fold.warnings)

    @property
    def response(self) -> ResponseInfo:
        """The responding model, the vendor's ids and rate limits, as far as they are known.

        After a fallback it is the model that responds. The message has the same data, without headers
        and times, as `message.metadata["llmstream"]`.
        """
        return response_info(self._answered_by(), self._fold, self._call)

    def _answered_by(self) -> str:
        """ "provider:model" of the responding model, as far as it is known."""
        by_another = None if self._call is None else self._call.answered_by
        return by_another or f"{self.model.provider.name}:{self.model.name}"

    @property
    def message(self) -> Message:
        """The message of this response so far; complete once it is over."""
        return self._fold.partial

    @property
    def usage(self) -> Usage:
        """Tokens of this response, as reported so far."""
        fold = self._fold
        return fold.usage if fold.finished or self._call is None else self._call.usage

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model ended; None before that."""
        return self._fold.finish_reason

    @property
    def error(self) -> LLMStreamError | None:
        """Why the stream failed, or None."""
        return self._call.error if self._call is not None else None

    @property
    def accumulator(self) -> Accumulator:
        """The accumulator of this response: tool inputs, warnings, response id and so on."""
        return self._fold

    @property
    def object(self) -> T:
        """The validated answer, of `output`'s type, once the response is over.

        raises: InvalidOutput if it does not fit, with the message in `partial`; the stream's own
                error if it failed; InvalidRequest while it is not fully read
        """
        output = required_output(self._conversation.output)
        if not self._over:
            raise InvalidRequest("the answer is not complete. Read it with objects() or collect() first.")
        if self.error is not None:
            raise self.error
        if self.finish_reason is None:
            raise InvalidRequest("the stream was closed before its end; the content so far is in `message`")
        try:
            found: T = final_object(self.message, self.finish_reason, output)
            return found
        except InvalidOutput as error:
            error.provider, error.partial, error.usage = self.model.provider.name, self.message, self.usage
            raise

    def tool_input(self, call_id: str) -> Any:
        """The input so far of a call, as a JSON value parsed from the incomplete text.

        The raw text is `accumulator.tool_input`. Objects and arrays continue to grow: copy them to store
        them, and do not change them. None for an unknown call, and before there is any value.
        """
        self._catch_up()
        return self._fold.tool_value(call_id)

    @property
    def resume_token(self) -> ResumeToken | None:
        """The reader's position in an answer that the vendor stores, for `Model.reattach`; else None.

        It exists from the first event with the response's id on. Store the latest one: the events after
        it are sent again.
        """
        return self._token_at(self._turn.seen == len(self._turn.batch))

    def _token_at(self, end: bool) -> ResumeToken | None:
        call, model = self._call, self.model
        if call is None:
            return self._token
        position = call.position if end else call.earlier
        if position is None:
            return None
        return ResumeToken(model.provider.name, model.name, position.response_id, position.sequence_number)
