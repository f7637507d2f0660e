"""`submit()` and `Batch`: submits rows to a vendor's batch API and returns their results, paid once.

batch = await model.submit(rows, keep="job.json")
await batch.wait()
async for row in batch.results():
    print(row.item, row.value)
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

import msgspec

from llmstream.batches.apis import BatchApi, JobState, NewJob, Outcome, api_of
from llmstream.batches.record import Part, Record, ids_of
from llmstream.batches.rows import Reader, Rows, Waiting, Written, lines_in, not_made, own_options, written
from llmstream.batches.vendor import GRACE_S, UnknownJob, Vendor
from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    InvalidRequest,
    LLMStreamError,
    MissingKey,
    ServerError,
)
from llmstream.mapping.asking import Price
from llmstream.mapping.lines import JSONLines
from llmstream.mapping.options import asked_of, list_prices, make
from llmstream.mapping.result import MapResult
from llmstream.mapping.row import prompt_function, prompt_name
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt, with_defaults, with_output
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.structured import Output

__all__ = ["Batch", "BatchProgress", "submit"]

T = TypeVar("T")
Item = TypeVar("Item")

# Jobs take minutes to a day, and vendors limit requests for their state.
_POLL_S: Final = 60.0
# Each round may take another day.
_ROUNDS: Final = 3
# Longer than a restart of a router or a laptop's sleep, short enough that a person learns of a wrong proxy.
_PATIENCE_S: Final = 600.0
# Rows that are encoded or decoded before other tasks get a turn.
_WITHOUT_PAUSE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """The known state of a batch.

    rows:     all of them
    requests: different ones among them; rows with the same prompt share one
    finished: requests that have an outcome, by the vendor's own count
    answered: requests whose answers are stored
    failed:   requests that have an error, and are not submitted again
    jobs:     jobs at the vendor, those of further rounds included
    waiting:  of these, the ones that are not over
    """

    rows: int
    requests: int
    finished: int
    answered: int
    failed: int
    jobs: int
    waiting: int


async def submit(
    model: str | Model[Any],
    rows: Iterable[Any] | AsyncIterable[Any],
    *,
    keep: str | os.PathLike[str],
    output: Any = None,
    prompt: str | Callable[[Any], Prompt] | None = None,
    finish_online: bool = False,
    rounds: int = _ROUNDS,
    dedupe: bool = True,
    price: Price | None = None,
    prompt_id: str | None = None,
    **options: Any,
) -> Batch[Any, Any]:
    """Submits rows to the vendor's batch API, at half the price; answers come within a day.

    The same call continues the batch of an earlier process, however that ended: submitted jobs are found by
    name and not paid again. Rows that are new since are submitted.

    model:         a `Model`, or "provider:model", of openai, anthropic, google or mistral
    rows:          as of `llmstream.map`; all are held in memory
    keep:          the file that records the batch; results are stored beside it
    output:        the type of each answer; see `Model.ask`
    prompt:        a template with `{{column}}`, or a function that makes the prompt of a row; see
                   `llmstream.map`
    finish_online: ask at once, at the full price, for what the first round left without an answer
    rounds:        how often a row is submitted at most. Only those that expired or failed are repeated
    dedupe:        submit the same prompt once, and give its answer to each row
    price:         of single requests; by default the list prices, if the extra `prices` is installed
    prompt_id:     identifies this form of the prompt in the record; by default the template, or
                   the name of the function
    options:       those of `Model.stream`
    raises:        InvalidRequest for invalid options, or the file of another batch; Unsupported for a
                   provider without batches; the vendor's error if it does not take the batch
    """
    asked = model if isinstance(model, Model) else Model(model)
    api = api_of(asked.provider)
    if rounds < 1:
        raise InvalidRequest(f"rounds must be at least 1, got {rounds!r}")
    if asked._opener is not None:
        raise InvalidRequest("a wrapped model has no batches: its middleware would be left out")
    given = own_options(with_output(output, cast(Options, options)))
    request = asked.request("?", **given)  # invalid options fail at once
    items = [row async for row in rows] if isinstance(rows, AsyncIterable) else rows
    prompt_of = prompt_function(prompt)
    # Prompts of many rows take long to make and to hash, which would block the loop.
    found = await asyncio.to_thread(Rows, items, prompt_of, dedupe=dedupe)
    name = f"{asked.provider.name}:{asked.name}"
    form = prompt_name(prompt) if prompt_id is None else prompt_id
    record = Record(keep, name, {**asked_of(asked, request), "prompt": form})
    batch: Batch[Any, Any] = Batch(
        asked,
        api,
        found,
        record,
        options=given,
        prompt_of=prompt_of,
        finish_online=finish_online,
        # Rows left by the first round are requested directly instead.
        rounds=1 if finish_online else rounds,
        price=price or list_prices(),
    )
    try:
        await batch._begin()
    except BaseException:
        record.close()
        raise
    return batch


class Batch(Generic[Item, T]):
    """Rows at a vendor's batch API; made by `submit()` or `Model.submit()`."""

    def __init__(
        self,
        model: Model[Any],
        api: BatchApi,
        rows: Rows,
        record: Record,
        *,
        options: dict[str, Any],
        prompt_of: Callable[[Any], Prompt],
        finish_online: bool,
        rounds: int,
        price: Price | None,
    ) -> None:
        self._model = model
        self._api = api
        self._vendor = Vendor(model, api)
        self._rows = rows
        self._record = record
        self._options = options
        self._prompt_of = prompt_of
        self._finish_online = finish_online
        self._rounds = rounds
        self._price = price
        self._output = _output(model, options)
        self._readers: dict[str, Reader] = {}  # by endpoint
        self._answered: set[str] = set()
        self._fatal: set[str] = set()
        self._errors: dict[str, LLMStreamError] = {}  # the latest, of requests without an answer
        self._spent: dict[str, tuple[Usage, float | None, int]] = {}  # by answers that were of no use
        self._tries: Counter[str] = Counter()
        self._suspects: dict[str, list[str]] = {}  # by part: jobs that may be it
        weakref.finalize(self, record.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process continue the batch. The vendor continues independently. Idempotent."""
        self._record.close()

    @property
    def progress(self) -> BatchProgress:
        """The current counts."""
        parts = self._record.parts
        return BatchProgress(
            rows=len(self._rows),
            requests=len(self._rows.places),
            finished=sum(part.finished for part in parts if part.state != "collected") + len(self._answered),
            answered=len(self._answered),
            failed=len(self._rows.failed) + len(self._fatal),
            jobs=len(parts),
            waiting=len(self._open),
        )

    @property
    def _open(self) -> list[Part]:
        return [part for part in self._record.parts if part.state != "collected"]

    async def wait(
        self, *, poll_s: float = _POLL_S, observe: Callable[[BatchProgress], object] | None = None
    ) -> None:
        """Waits until each row has an outcome, and stores the results; may be called again after a break.

        poll_s:  seconds between two questions to the vendor
        observe: called after each of them
        raises:  the vendor's error; TransportError if it cannot be reached for ten minutes
        """
        since: float | None = None  # when the vendor first stopped responding
        while True:
            try:
                over = await self._check_status(poll_s)
                since = None
            except LLMStreamError as error:
                now, over = time.monotonic(), False
                since = now if since is None else since
                # The jobs continue without us, so a network failure is no reason to stop.
                if not error.retryable or now - since > _PATIENCE_S:
                    raise
            if observe is not None:
                observe(self.progress)
            if over:
                self.close()  # nothing is written any more
                return
            if since is not None or self._open:
                await asyncio.sleep(poll_s)

    async def _check_status(self, poll_s: float) -> bool:
        """Stores finished jobs, and submits rows that need another round; returns whether all is done."""
        for part in self._open:
            await self._look_after(part)
        if self._open:
            return False
        left = self._left()
        if left and not self._record.parts[-1].counts:
            await asyncio.sleep(poll_s)  # the vendor's queue was full
        if left:
            await self._submit(left)
        return not left

    async def results(self, *, poll_s: float = _POLL_S) -> AsyncGenerator[MapResult[Item, T]]:
        """Yields the result of each row once, in no order; waits first if the batch is not over.

        Rows that failed have their `error`. With `finish_online` those without an answer are requested now.
        """
        await self.wait(poll_s=poll_s)
        given: set[str] = set()
        for part in self._record.parts:
            for number, (request, outcome) in enumerate(self._outcomes(part)):
                if number % _WITHOUT_PAUSE == 0:
                    await asyncio.sleep(0)
                if request in given or request not in self._answered:
                    continue
                result = self._reader(part.endpoint).result(outcome)
                if result.error is None:
                    given.add(request)
                    for done in self._of_rows(request, result):
                        yield done
        rest = [request for request in self._rows.places if request not in given]
        online = [request for request in rest if self._finish_online and request not in self._fatal]
        for request in rest:
            if not self._finish_online or request in self._fatal:
                error = self._errors.get(request) or not_made()
                for done in self._of_rows(request, self._failure(error)):
                    yield done
        for index, error in self._rows.failed:
            yield replace(self._failure(error), item=self._rows.items[index], index=index, attempts=0)
        async with aclosing(self._requested_online(online)) as answers:
            async for done in answers:
                yield done

    async def cancel(self) -> None:
        """Cancels the jobs at the vendor; existing answers stay, and `wait` stores them.

        raises: the vendor's error
        """
        self._rounds = 0
        for part in self._open:
            if part.state == "submitted":
                await self._vendor.run(self._api.cancel(part.job))

    # The start: the work of an earlier process, and new rows.

    async def _begin(self) -> None:
        for part in self._record.parts:
            await self._prepare_reader(part)
            if part.state == "collected":
                await self._count(part)
        if self._api.by_name:
            for part in self._open:
                if part.state == "planned":
                    await self._recover(part)
        known = {request for part in self._record.parts for request in ids_of(part)}
        new = [request for request in self._rows.places if request not in known]
        if new:
            await self._submit(new)

    async def _recover(self, part: Part) -> None:
        """Finds the job of a part whose submitter has died; submits it if there is none."""
        wait_s = GRACE_S - (time.time() - part.at)
        if 0 < wait_s <= GRACE_S:
            await asyncio.sleep(wait_s)  # its request may still be on its way
        found = await self._vendor.run(self._api.find(self._new_job(part)))
        if found:
            self._submitted(part, found[0])
        else:
            await self._send_again(part)

    async def _send_again(self, part: Part) -> None:
        """Submits a part that the vendor does not have."""
        if not part.file:
            found = await self._vendor.run(self._api.find_file(part.name))
            part.file = found or ""
        known = [request for request in ids_of(part) if request in self._rows.places]
        if len(known) < part.size:  # rows that are not in the input any more
            part.ids, part.file = "".join(known), ""
        bodies, headers = [], dict[str, str]()
        for request in known:
            wrote = await self._written(request)
            if wrote is not None:
                bodies.append((request, msgspec.json.encode(wrote.body)))
                headers.update(wrote.headers)
        await self._send(part, bodies, headers)

    def _left(self) -> list[str]:
        """Requests that need another round."""
        over = self._answered | self._fatal
        return [
            request
            for request in self._rows.places
            if request not in over and self._tries[request] < self._rounds
        ]

    # Submission.

    async def _submit(self, requests: list[str]) -> None:
        """Submits requests in as many parts as the vendor's limits need."""
        number = 1 + max((part.round for part in self._record.parts), default=-1)
        waiting: dict[str, Waiting] = {}  # by endpoint
        for count, request in enumerate(requests):
            if count % _WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
            wrote = await self._written(request)
            if wrote is None:
                continue
            body = msgspec.json.encode(wrote.body)
            ready = waiting.setdefault(wrote.url, Waiting())
            if not ready.has_room(len(body), self._api):
                await self._submit_part(wrote.url, ready, number)
                ready = waiting[wrote.url] = Waiting()
            ready.add(request, body, wrote.headers)
        for url, ready in waiting.items():
            await self._submit_part(url, ready, number)

    async def _submit_part(self, url: str, ready: Waiting, number: int) -> None:
        part = self._record.begin(url, [request for request, _ in ready.bodies], time.time(), number)
        await self._send(part, ready.bodies, ready.headers)

    async def _send(self, part: Part, bodies: list[tuple[str, bytes]], headers: dict[str, str]) -> None:
        """Uploads the requests of a part and creates its job; writes down each step.

        raises: the vendor's error; then the part is not in the record any more
        """
        lines = [
            self._api.line(f"{part.name}-{request}", msgspec.Raw(body), part.endpoint)
            for request, body in bodies
        ]
        try:
            if not part.file:
                part.file = await self._vendor.run(self._api.upload(part.name, lines))
                self._record.write()
            job = replace(self._new_job(part), headers=headers)
            self._submitted(part, await self._vendor.created(job, [] if part.file else lines))
        except UnknownJob as unknown:
            raise unknown.error from None  # it may exist: the record keeps it, and the next call finds it
        except LLMStreamError:
            # The vendor has definitely refused it, so no process needs to look for it.
            self._record.parts.remove(part)
            self._record.write()
            raise

    def _submitted(self, part: Part, job: str) -> None:
        part.job, part.state = job, "submitted"
        self._record.write()

    def _new_job(self, part: Part) -> NewJob:
        return NewJob(part.name, part.endpoint, self._model.name, part.size, part.at, file=part.file)

    async def _written(self, request: str) -> Written | None:
        """A request as the vendor takes it; None for one that it cannot take, which has failed then."""
        try:
            asked = self._model.request(self._rows.prompt(request), **self._options)
            wrote = await written(self._model, asked)
        except LLMStreamError as error:
            if error.retryable or isinstance(error, MissingKey | AuthenticationError):
                raise
            self._fatal.add(request)
            self._errors[request] = error
            return None
        if wrote.url not in self._readers:
            self._add_reader(wrote)
        return wrote

    # Watching, and the results.

    async def _look_after(self, part: Part) -> None:
        """Asks for the state of a part; stores its results once it is over."""
        if part.state == "planned":
            await (self._recover(part) if self._api.by_name else self._suspect(part))
            return
        state = await self._vendor.run(self._api.state(part.job))
        if not state.over:
            part.finished = state.finished
            return
        if state.missing:
            raise _no_results(part)
        alone = len(self._open) == 1
        # A full queue is not caused by the rows, and does not use up a round; if the queue is otherwise
        # empty, they will never fit.
        part.problem, part.counts = state.problem, alone or not state.full
        await self._store(part, state)

    async def _suspect(self, part: Part) -> None:
        """Looks for the job of a dead submitter among those without a name; creates it if it is none."""
        wait_s = GRACE_S - (time.time() - part.at)
        if 0 < wait_s <= GRACE_S:
            await asyncio.sleep(wait_s)
        taken = {other.job for other in self._record.parts}
        found = await self._vendor.run(self._api.find(self._new_job(part)))
        undecided = False
        for job in found:
            if job in taken or job in self._suspects.setdefault(part.name, []):
                continue
            state = await self._vendor.run(self._api.state(job))
            if not state.over:
                undecided = True
            elif await self._is_of(part, state):
                self._submitted(part, job)
                return
            else:
                self._suspects[part.name].append(job)
        if not undecided:
            # A new submission begins: candidates that are older are not this one.
            part.at = time.time()
            await self._send_again(part)

    async def _is_of(self, part: Part, state: JobState) -> bool:
        """Whether the results of a job are those of a part."""
        path = self._record.results_path(part) + ".found"
        await self._vendor.download(path, state)
        try:
            ids = (outcome.custom_id for line in lines_in(path) if (outcome := self._api.outcome(line)))
            return next(ids, "").startswith(f"{part.name}-")
        finally:
            os.unlink(path)

    async def _store(self, part: Part, state: JobState) -> None:
        """Writes the results of a part next to the record: vendors delete them after a while."""
        path = self._record.results_path(part)
        await self._download(part, path + ".tmp", state)
        if state.finished and not state.problem and not self._outcomes_in(part, path + ".tmp"):
            os.unlink(path + ".tmp")
            raise _no_results(part)
        # Before the record is updated: a record never names results that are not complete.
        os.replace(path + ".tmp", path)
        part.state, part.finished = "collected", part.size
        self._record.write()
        await self._count(part)

    async def _count(self, part: Part) -> None:
        """Counts the outcomes in the results of a part."""
        if part.counts:
            self._tries.update(ids_of(part))
        failed: dict[str, tuple[Outcome, MapResult[Any, Any]]] = {}
        for number, (request, outcome) in enumerate(self._outcomes(part)):
            if number % _WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
            if request in self._answered:
                continue
            result = self._reader(part.endpoint).result(outcome)
            if result.error is None:
                self._answered.add(request)
                self._errors.pop(request, None)
            else:
                failed.setdefault(request, (outcome, result))
        for request, (outcome, result) in failed.items():
            # A vendor that repeats a line may have an error in one and the answer in another.
            if request in self._answered or result.error is None:
                continue
            self._errors[request] = result.error
            self._spend(request, result)
            # A complete answer that does not fit the output type may fit on a retry.
            if not (result.error.retryable or outcome.status == 200):
                self._fatal.add(request)
        if part.problem:
            for request in ids_of(part):
                self._errors.setdefault(request, _refused(part))

    async def _download(self, part: Part, path: str, state: JobState) -> None:
        """Writes the results of a part; again if they are fewer than the vendor counts.

        A file may end early at the end of a line, and the rows of the others would be paid again.
        """

        def is_complete() -> bool:
            found = self._outcomes_in(part, path)
            # Without any result it is another matter, which `_store` reports.
            return not 0 < found < min(state.finished, part.size)

        await self._vendor.download(path, state, is_complete=is_complete)

    def _outcomes_in(self, part: Part, path: str) -> int:
        """Of how many requests a file has results; none in the page of a proxy, or those of another job."""
        found = (outcome for line in lines_in(path) if (outcome := self._api.outcome(line)))
        begins = f"{part.name}-"
        return len({outcome.custom_id for outcome in found if outcome.custom_id.startswith(begins)})

    def _outcomes(self, part: Part) -> Iterator[tuple[str, Outcome]]:
        """The stored outcomes of the rows that are in the input, in the vendor's order."""
        path = self._record.results_path(part)
        readable = part.endpoint in self._readers and os.path.exists(path)
        if part.state != "collected" or not readable:
            return
        begins, own = f"{part.name}-", set(ids_of(part))
        for line in lines_in(path):
            outcome = self._api.outcome(line)
            if outcome is None or not outcome.custom_id.startswith(begins):
                continue
            request = outcome.custom_id.removeprefix(begins)
            if request in own and request in self._rows.places:
                yield request, outcome

    def _spend(self, request: str, result: MapResult[Any, Any]) -> None:
        """Counts tokens of an answer that is of no use; they are paid all the same."""
        usage, cost, attempts = self._spent.get(request, (Usage(), None, 0))
        if result.cost is not None:
            cost = (cost or 0.0) + result.cost
        self._spent[request] = (usage + result.usage, cost, attempts + 1)

    def _of_rows(self, request: str, result: MapResult[Any, Any]) -> Iterator[MapResult[Any, Any]]:
        """The results of the rows of a request; the first has the tokens, the others cost nothing."""
        usage, cost, attempts = self._spent.get(request, (Usage(), None, 0))
        if result.error is None:
            usage, attempts = usage + result.usage, attempts + result.attempts
            cost = result.cost if cost is None else cost + (result.cost or 0.0)
        first, *others = self._rows.places[request]
        items = self._rows.items
        shown = replace(result, usage=usage, cost=cost, attempts=attempts)
        yield replace(shown, item=items[first], index=first)
        free = None if cost is None else 0.0
        for index in others:
            yield replace(shown, item=items[index], index=index, usage=Usage(), cost=free, attempts=0)

    def _failure(self, error: LLMStreamError) -> MapResult[Any, Any]:
        name = f"{self._model.provider.name}:{self._model.name}"
        return MapResult(item=None, index=0, error=error, model=name)

    async def _requested_online(self, requests: list[str]) -> AsyncGenerator[MapResult[Any, Any]]:
        """Sends requests one by one; their answers are also stored next to the record."""
        if not requests:
            return
        run = make(
            self._model,
            [self._rows.items[self._rows.places[request][0]] for request in requests],
            options=cast(Options, self._options),
            prompt=self._prompt_of,
            prompt_id="",
            concurrency=100,
            ordered=False,
            keep=self._record.path + ".online.jsonl",
            lines=JSONLines(),
            price=self._price,
            dedupe=False,
        )
        async with run:
            async for done in run:
                for shown in self._of_rows(requests[done.index], done):
                    yield shown

    # The readers of answers.

    async def _prepare_reader(self, part: Part) -> None:
        """Makes the reader of a part of an earlier process, from one of its requests."""
        for request in ids_of(part):
            if part.endpoint in self._readers:
                return
            if request in self._rows.places:
                await self._written(request)

    def _reader(self, endpoint: str) -> Reader:
        return self._readers[endpoint]

    def _add_reader(self, wrote: Written) -> None:
        self._readers[wrote.url] = Reader(
            self._model, wrote.dialect, wrote.reading, self._output, self._price, self._api.price_share
        )


def _output(model: Model[Any], options: dict[str, Any]) -> Output | None:
    wanted = with_defaults(model.options, cast(Options, options)).get("output")
    if wanted is None:
        return None
    from llmstream.structured import as_output  # loaded only for structured output

    return as_output(wanted)


def _no_results(part: Part) -> LLMStreamError:
    """Without its results the requests would be submitted and paid again."""
    return ServerError(
        f"the vendor reports batch {part.job} as complete but returns no results. Try again later, or check "
        "the batch in the vendor's console.",
        retryable=True,
        reason="no-results",
    )


def _refused(part: Part) -> LLMStreamError:
    return BadRequest(f"the vendor refused the batch: {part.problem}")
