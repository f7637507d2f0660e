"""`MapRun`: sends many items at once, and yields their results: in order if requested, never too many."""

from __future__ import annotations

import asyncio
import warnings
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self

import anyio.to_thread

from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, LimitExceeded, error_from_info
from llmstream.json_types import convert, encode
from llmstream.mapping.asking import AdaptiveConcurrency, Answer, Asker, GateClosed, RunStopped
from llmstream.mapping.keep import Keep
from llmstream.mapping.lines import JSONLines
from llmstream.mapping.places import Places
from llmstream.mapping.result import MapProgress, MapResult
from llmstream.mapping.row import PromptOf, Row, each, row_of
from llmstream.streams.reading import AsyncOnly, require_asyncio
from llmstream.usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from llmstream.structured import Output

    Item = TypeVar("Item", default=Any)
    T = TypeVar("T", default=Any)
    R = TypeVar("R")
else:
    from typing import TypeVar

    Item = TypeVar("Item")
    T = TypeVar("T")
    R = TypeVar("R")


__all__ = ["MapRun", "Plan"]

# Answers in memory for items with the same request; of those in a file of JSON lines, the places are.
_REMEMBERED: Final = 10_000

# Items that are passed over before other tasks get a turn: well under a millisecond.
_WITHOUT_PAUSE: Final = 64


@dataclass(slots=True, kw_only=True)
class Plan:
    """The inputs of a run.

    ahead:       how many items may be started and not yet yielded
    max_cost:    in the unit of the price; None for no limit
    show_stored: whether results of earlier runs are yielded
    sort:        whether the file is put in the order of the items at the end
    """

    items: Iterable[Any] | AsyncIterable[Any]
    prompt_of: PromptOf
    asker: Asker
    gate: AdaptiveConcurrency
    ordered: bool
    ahead: int
    output: Output | None
    keep: Callable[[], Keep] | None
    max_cost: float | None
    dedupe: bool
    show_stored: bool
    sort: bool


class MapRun(AsyncOnly, Generic[Item, T]):
    """The results of a map; made by `map()`.

    Iterate it once, best within `async with`: leaving the block cancels the requests in progress and waits
    for their cleanup. Without a block, `break` does the same a little later, and Python's `ResourceWarning`
    reports it. Nothing is sent before the iteration begins.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._results: Results[MapResult[Item, T]] = Results(ordered=plan.ordered, ahead=plan.ahead)
        self._progress = MapProgress()
        self._keep: Keep | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: dict[int, list[Row[Item]]] = {}  # by request: the items that wait for its answer
        self._places = Places()  # of answers in the file, by request
        self._remembered: OrderedDict[int, Answer] = OrderedDict()  # where there is no such file
        self._spent = asyncio.Event()  # a request is over, so its cost is known
        self._failure: BaseException | None = None
        self._reading = self._over = self._stopped = False
        self._owned = False  # by an `async with` block

    @property
    def progress(self) -> MapProgress:
        """A copy of the current counts."""
        gate, found = self._plan.gate, self._progress
        return replace(
            found,
            failed=found.failed.copy(),
            under_way=0 if self._over else gate.under_way,
            concurrency=gate.limit,
            refused=self._plan.asker.refused,
            paused_s=0.0 if self._feeder is None else gate.paused_s,
        )

    @property
    def left_over(self) -> int:
        """How many lines of the file belong to items that this run has not met."""
        return 0 if self._keep is None else self._keep.left_over

    async def __aenter__(self) -> Self:
        self._owned = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncGenerator[MapResult[Item, T]]:
        if self._reading or self._over:
            raise InvalidRequest("this map is being read or has been read. Call map() again for another run.")
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[MapResult[Item, T]]:
        self._reading = True
        reader = require_asyncio()
        try:
            await self._start()
            while (result := await self._results.take()) is not None:
                yield result
            if self._failure is not None:
                raise self._failure
            if self._keep is not None and self._plan.sort and not self._stopped:
                await anyio.to_thread.run_sync(self._keep.sort)
        except GeneratorExit:
            if not (self._over or self._owned) and asyncio.current_task() is not reader:
                warnings.warn(
                    "a map was dropped while it was read; use `async with` to end its requests at once",
                    ResourceWarning,
                    stacklevel=2,
                    source=self,
                )
            raise
        finally:
            await self.aclose()

    def stop(self) -> None:
        """Starts no more requests. Those in progress are completed, and then the iteration ends."""
        self._stopped = True
        self._plan.gate.close()
        if self._feeder is not None:
            self._feeder.cancel()

    async def aclose(self) -> None:
        """Cancels requests in progress, waits for their cleanup, and closes the file. Idempotent."""
        self._over = True
        self._plan.gate.close()
        tasks = [*self._tasks, *([self._feeder] if self._feeder is not None else [])]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if self._keep is not None:
                self._keep.close()

    async def _start(self) -> None:
        if self._plan.keep is not None:
            self._keep = keep = await anyio.to_thread.run_sync(self._plan.keep)
            self._progress = replace(keep.earlier, done=0, stored=0)
        self._feeder = asyncio.create_task(self._feed())
        self._feeder.add_done_callback(self._ended)

    async def _feed(self) -> None:
        """Reads the items and starts their requests."""
        plan, index = self._plan, 0
        async with aclosing(each(plan.items)) as items:
            async for item in items:
                await self._results.enter()
                row = row_of(item, index, plan.prompt_of)
                if not self._settled(row):
                    await self._affordable()
                    turn = await plan.gate.acquire()
                    self._asking[row.request] = [row]
                    task = asyncio.create_task(self._ask(row, turn))
                    self._tasks.add(task)
                    task.add_done_callback(self._ended)
                index += 1
                if index % _WITHOUT_PAUSE == 0:
                    await asyncio.sleep(0)

    def _settled(self, row: Row[Item]) -> bool:
        """Whether an item needs no separate request."""
        stored = None if self._keep is None else self._keep.take(row.key)
        if stored is not None:
            self._show_stored(row, stored)
        elif row.error is not None:
            self._deliver(row, Answer(error=row.error))
        elif not self._plan.dedupe:
            row.request = -1 - row.index  # no other has it
            return False
        elif row.request in self._asking:
            self._asking[row.request].append(row)
        elif (known := self._known(row.request)) is not None:
            self._deliver(row, _shared(known), reused=True)
        else:
            return False
        return True

    async def _affordable(self) -> None:
        """Waits until the next request fits into `max_cost`, counting those in progress at the mean cost.

        raises: RunStopped if it does not
        """
        limit, progress = self._plan.max_cost, self._progress
        while limit is not None:
            spent = progress.cost or 0.0
            mean = spent / self._priced if self._priced else 0.0
            if spent < limit and spent + mean * len(self._tasks) < limit:
                return
            if not self._tasks:
                raise RunStopped(LimitExceeded(f"the cost has reached max_cost={limit:g}", reason="max_cost"))
            self._spent.clear()
            await self._spent.wait()

    async def _ask(self, row: Row[Item], turn: float) -> None:
        answer = await self._plan.asker.ask(row.prompt, turn)
        first, *others = self._asking.pop(row.request)
        at = self._deliver(first, answer)
        if answer.error is None and self._plan.dedupe:
            self._remember(row.request, answer, at)
        for other in others:
            self._deliver(other, _shared(answer), reused=True)

    def _remember(self, request: int, answer: Answer, at: int | None) -> None:
        """Notes an answer for items with the same request: where its line is, else the answer itself."""
        if at is not None and self._reads_answers:
            self._remember_place(request, at)
            return
        self._remembered[request] = answer
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)

    def _remember_place(self, request: int, at: int) -> None:
        if self._places.get(request) is None:
            self._places.add(request, at)

    def _known(self, request: int) -> Answer | None:
        """The answer that a request got before."""
        at = self._places.get(request)
        return self._remembered.get(request) if at is None else self._answer_at(at)

    @property
    def _reads_answers(self) -> bool:
        """Whether answers can be read back from the file. Those in CSV have lost their types."""
        return self._keep is not None and isinstance(self._keep.lines, JSONLines)

    def _answer_at(self, at: int) -> Answer:
        """The answer in a line of the file."""
        assert self._keep is not None
        lines, record = self._keep.lines, self._keep.read(at)
        line = lines.read(record)
        answer = Answer(
            usage=line.usage or Usage(),
            cost=line.cost,
            attempts=line.attempts,
            model=line.model,
            finish_reason=line.finish_reason,
        )
        if line.error is not None:
            answer.error = error_from_info(line.error)
        elif isinstance(lines, JSONLines):
            plain, output = lines.answer(record), self._plan.output
            if output is None:
                answer.value = answer.message = Message.assistant(plain if isinstance(plain, str) else "")
            else:
                answer.value = convert(plain, output.type)
                answer.message = Message.assistant(encode(plain).decode())
        return answer

    def _show_stored(self, row: Row[Item], at: int) -> None:
        """Gives the result of an earlier run."""
        assert self._keep is not None
        self._keep.put(row.index, at)
        self._progress.done += 1
        self._progress.stored += 1
        if self._plan.dedupe and self._reads_answers and not self._keep.failed_at(at):
            self._remember_place(row.request, at)
        result = _result(row, self._answer_at(at), stored=True) if self._plan.show_stored else None
        self._results.put(row.index, result)

    def _deliver(self, row: Row[Item], answer: Answer, *, reused: bool = False) -> int | None:
        """Writes a result, counts it and gives it to the reader; returns the place of its line.

        raises: KeepFailed
        """
        result, at = _result(row, answer), None
        if self._keep is not None:
            at = self._keep.append(self._keep.lines.encode(row.fields, result, row.key))
            self._keep.put(row.index, at)
        self._progress.add(result)
        self._progress.reused += reused
        self._results.put(row.index, result)
        return at

    @property
    def _priced(self) -> int:
        """How many answers the cost so far is that of."""
        return self._progress.done - self._progress.stored - self._progress.reused

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A request is over, or the items are."""
        self._tasks.discard(task)
        self._spent.set()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, RunStopped):
            self._failure = self._failure or error.error
            self.stop()
        elif error is not None and not isinstance(error, GateClosed):
            self._failure = error if self._failure is None else self._failure
            self.stop()
            for other in self._tasks:
                other.cancel()
        if not self._tasks and (self._feeder is None or self._feeder.done()):
            self._results.end()


def _result(row: Row[Any], answer: Answer, *, stored: bool = False) -> MapResult[Any, Any]:
    return MapResult(
        item=row.item,
        index=row.index,
        message=answer.message,
        error=answer.error,
        usage=answer.usage,
        cost=answer.cost,
        attempts=answer.attempts,
        model=answer.model,
        stored=stored,
        finish_reason=answer.finish_reason,
        _value=answer.value,
    )


def _shared(answer: Answer) -> Answer:
    """The answer for another item, which costs nothing."""
    return replace(answer, usage=Usage(), cost=None if answer.cost is None else 0.0, attempts=0)


# Buffers results between the tasks that produce them and their reader: in order if requested, and bounded.


class Results(Generic[R]):
    """Results of numbered items.

    ordered: they are taken by number; else as they come
    ahead:   how many items may be entered and not taken yet
    """

    def __init__(self, *, ordered: bool, ahead: int) -> None:
        self._ordered = ordered
        self._ahead = ahead
        self._open = 0  # entered and not taken
        self._next = 0
        self._held: dict[int, R | None] = {}
        self._ready: deque[R] = deque()
        self._ended = False
        self._change: asyncio.Future[None] | None = None  # what the reader waits for
        self._room: asyncio.Future[None] | None = None  # what the feeder waits for

    async def enter(self) -> None:
        """Waits until there is room for one more item."""
        while self._open >= self._ahead:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        self._open += 1

    def put(self, number: int, result: R | None) -> None:
        """Adds the result of an entered item; None if the reader is not to see it."""
        if not self._ordered:
            self._add(result)
        else:
            self._held[number] = result
            while self._next in self._held:
                self._add(self._held.pop(self._next))
                self._next += 1

    def _add(self, result: R | None) -> None:
        if result is None:
            self._left()
        else:
            self._ready.append(result)
            _set(self._change)

    def _left(self) -> None:
        self._open -= 1
        _set(self._room)

    def end(self) -> None:
        """Ends the input. Results after a gap are yielded in their order."""
        self._ended = True
        for number in sorted(self._held):
            self._add(self._held.pop(number))
        _set(self._change)

    async def take(self) -> R | None:
        """Waits for the next result; None at the end."""
        while not self._ready:
            if self._ended:
                return None
            self._change = asyncio.get_running_loop().create_future()
            await self._change
        self._left()
        return self._ready.popleft()


def _set(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
