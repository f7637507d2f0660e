"""What has been read of an answer by now: its last event, text, message, usage and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message
from llmstream.dialects.errors import request_id
from llmstream.errors import InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.events import Event, FinishReason, Usage, Warning
from llmstream.streams.response import ResponseInfo, mark_message, rate_headers
from llmstream.streams.resuming import ResumeToken

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    from llmstream.streams.call import Call
    from llmstream.streams.conversation import Conversation
    from llmstream.streams.model import Model

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["NO_OUTPUT", "AnswerView"]

NO_OUTPUT: Final = (
    "objects() and object need to know what the answer is to be. "
    'Pass output=T for a type, output="json" or a JSON schema.'
)


class AnswerView(Generic[T]):
    """The views of one answer. Events are folded when a view is asked for, and at a batch's end.

    A subclass reads: it puts batches into `_batch`, counts in `_seen` what the reader has been given,
    and says when the answer is over.
    """

    model: Model
    _call: Call | None = None
    _over = False
    _conversation: Conversation
    _token: ResumeToken | None
    _made_fold: Accumulator | None

    def __init__(self) -> None:
        self._current: Event | None = None
        self._marked: Message | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing of the answer has been read yet."""
        self._batch: list[Event] = []
        self._seen = 0
        self._folded = 0

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
        output = self._conversation.output
        if output is None:
            raise InvalidRequest(NO_OUTPUT)
        if not self._over:
            raise InvalidRequest("the answer is not over: read it, by objects() or collect(), then ask again")
        if self.error is not None:
            raise self.error
        try:
            from llmstream.streams.objects import final_object

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
        """Where the reader is in an answer that its vendor keeps, for `Model.resume`; else None.

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
