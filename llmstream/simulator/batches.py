"""The batch APIs of OpenAI, Anthropic, Google and Mistral, with the faults that a batch may have.

Each request of a job is answered by the script when the job is created, as if it had been sent alone, and
is in `Simulator.requests` with the method BATCH.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qs, unquote

import msgspec

from llmstream.errors import BadRequest, NotFound
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.simulator.batch_files import JSONL, BatchFiles, json_page, object_of

__all__ = ["BatchFaults", "BatchPages", "SilentJob"]

Vendor: TypeAlias = Literal["openai", "anthropic", "google", "mistral"]
Answer: TypeAlias = Callable[[HttpRequest], HttpResponse]

_encode: Final = msgspec.json.Encoder().encode
_lines: Final = msgspec.json.Decoder(dict[str, Any])
# The completion window of OpenAI and Anthropic.
_DAY: Final = datetime.timedelta(days=1)


class BatchFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes wrong in batches. `every` n: of the n-th, 2n-th ... request of a job; 0 for none.

    jobs:         how many jobs have these faults; later ones have none
    polls:        how often a job is asked about before it is over
    lose_every:   requests without any result
    expire_every: requests that the vendor does not get to
    fail_every:   requests that fail with a server error
    repeat_every: results that come twice
    reorder:      whether results come in another order
    foreign:      whether results of another job, and lines that are none, are among them
    refuse_jobs:  how many jobs fail with all their requests, because too many tokens are queued
    silent_jobs:  how many jobs are created without an answer: the connection is cut
    """

    jobs: int = 1
    polls: int = 0
    lose_every: int = 0
    expire_every: int = 0
    fail_every: int = 0
    repeat_every: int = 0
    reorder: bool = False
    foreign: bool = False
    refuse_jobs: int = 0
    silent_jobs: int = 0


class _Row(msgspec.Struct):
    custom_id: str
    status: int  # 0: expired
    body: bytes
    twice: bool = False


class _Job(msgspec.Struct):
    number: int
    id: str
    vendor: Vendor
    name: str
    endpoint: str
    model: str
    file: str
    metadata: dict[str, Any]
    rows: list[_Row]
    total: int
    created: datetime.datetime
    # Counted after each look, so that `polls` responses show a job in progress.
    polls: int
    foreign: bool = False
    refused: bool = False
    cancelled: bool = False

    @property
    def over(self) -> bool:
        return self.polls <= 0 or self.cancelled

    @property
    def succeeded(self) -> int:
        """How many were answered; those that were lost count too."""
        return self.total - self.expired - self.failed

    @property
    def expired(self) -> int:
        return sum(row.status == 0 for row in self.rows)

    @property
    def failed(self) -> int:
        return sum(row.status >= 400 for row in self.rows)


class SilentJob(Exception):
    """The job was created, but its client gets no response."""


class BatchPages:
    """The jobs and files of one simulator.

    answer: answers a single request
    url:    returns the base URL
    """

    def __init__(
        self,
        faults: BatchFaults | None,
        answer: Answer,
        url: Callable[[], str],
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._faults = faults or BatchFaults(jobs=0)
        self._answer = answer
        self._url = url
        # The real time: clients find a job of theirs by it.
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        self.files = BatchFiles(url, self._now)
        self._jobs: dict[str, _Job] = {}
        self._refused = self._silent = 0
        self._pages = {
            "files": self.files.page,
            "openai": self._openai,
            "mistral": self._mistral,
            "anthropic": self._anthropic,
        }

    def page(self, http: HttpRequest) -> HttpResponse | None:
        """The answer to a request about batches and their files; None for any other.

        raises: BadRequest, NotFound; SilentJob
        """
        path, _, query = http.url.partition("?")
        parameters = {name: values[-1] for name, values in parse_qs(query).items()}
        # Google's client and OpenAI's use the same paths below /v1.
        if _is_google(http, path) and (found := _GOOGLE_PATH.fullmatch(unquote(path))):
            return self._google(http, found.groupdict(), parameters)
        if (found := _PATH.fullmatch(unquote(path))) is None:
            return None
        for kind, rest in found.groupdict().items():
            if rest is not None:
                return self._pages[kind](http, rest.strip("/"), parameters)
        return None

    # Jobs.

    def _create(
        self,
        vendor: Vendor,
        requests: Iterable[tuple[str, HttpRequest]],
        *,
        prefix: str,
        **about: Any,
    ) -> _Job:
        """Answers all requests, and makes a job of what the faults leave."""
        number, faults = len(self._jobs), self._faults
        faulty = number < faults.jobs
        refused = self._refused < faults.refuse_jobs
        self._refused += refused
        rows: list[_Row] = []
        total = 0
        for total, (custom_id, http) in enumerate(requests, 1):
            if not refused and not (faulty and _is_nth(total, faults.lose_every)):
                expired = faulty and _is_nth(total, faults.expire_every)
                rows.append(self._row(custom_id, http, total, faulty=faulty, expired=expired))
        if faulty and faults.reorder:
            rows = rows[1::2] + rows[::2]
        job = _Job(
            number=number,
            id=f"{prefix}sim{number}",
            vendor=vendor,
            rows=rows,
            total=total,
            created=self._now(),
            polls=faults.polls,
            foreign=faulty and faults.foreign,
            refused=refused,
            **{"name": "", "endpoint": "", "model": "", "file": "", "metadata": {}, **about},
        )
        self._jobs[job.id] = job
        if self._silent < faults.silent_jobs:
            self._silent += 1
            raise SilentJob
        return job

    def _row(self, custom_id: str, http: HttpRequest, number: int, *, faulty: bool, expired: bool) -> _Row:
        faults = self._faults
        if expired:
            return _Row(custom_id, 0, b"")
        if faulty and _is_nth(number, faults.fail_every):
            return _Row(custom_id, 500, b'{"error":{"message":"failed, as scripted","type":"server_error"}}')
        response = self._answer(http)
        twice = faulty and _is_nth(number, faults.repeat_every)
        return _Row(custom_id, response.status, response.body, twice)

    def _job(self, number: str, vendor: Vendor) -> _Job:
        job = self._jobs.get(number)
        if job is None or job.vendor != vendor:
            raise NotFound(f"No batch found with id {number!r}", status=404)
        return job

    def _of(self, vendor: Vendor) -> list[_Job]:
        """The jobs of a vendor, the newest first."""
        return [job for job in reversed(self._jobs.values()) if job.vendor == vendor]

    # OpenAI.

    def _openai(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        number, _, action = rest.partition("/")
        if http.method == "POST" and not rest:
            return json_page(self._openai_shape(self._new_openai(object_of(http))))
        if not rest:
            jobs = self._of("openai")
            if query.get("after"):
                jobs = list(itertools.dropwhile(lambda job: job.id != query["after"], jobs))[1:]
            # OpenAI's default.
            limit = int(query.get("limit") or 20)
            shown = [self._openai_shape(job) for job in jobs[:limit]]
            return json_page({"object": "list", "data": shown, "has_more": len(jobs) > limit})
        job = self._job(number, "openai")
        if action == "cancel":
            job.cancelled = True
            return json_page(self._openai_shape(job))
        shape = self._openai_shape(job)
        job.polls -= 1
        return json_page(shape)

    def _new_openai(self, body: dict[str, Any]) -> _Job:
        lines = self.files.lines_of(body.get("input_file_id"))
        endpoint = str(body.get("endpoint"))
        requests = (
            (str(line["custom_id"]), HttpRequest(str(line["url"]), _encode(line["body"]))) for line in lines
        )
        return self._create(
            "openai",
            requests,
            prefix="batch_",
            endpoint=endpoint,
            file=body["input_file_id"],
            metadata=body.get("metadata") or {},
        )

    def _openai_shape(self, job: _Job) -> dict[str, Any]:
        status = "in_progress"
        if job.refused:
            status = "failed"
        elif job.over:
            status = "cancelled" if job.cancelled else "expired" if job.expired else "completed"
        shape: dict[str, Any] = {
            "id": job.id,
            "object": "batch",
            "endpoint": job.endpoint,
            "errors": None,
            "input_file_id": job.file,
            "completion_window": "24h",
            "status": status,
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(job.created.timestamp()),
            "expires_at": int((job.created + _DAY).timestamp()),
            "request_counts": {"total": job.total, "completed": 0, "failed": 0},
            "metadata": job.metadata,
        }
        if job.refused:
            full = "Enqueued token limit reached. Please try again once other batches are completed."
            problem = {"code": "token_limit_exceeded", "message": full, "param": None, "line": None}
            shape["errors"] = {"object": "list", "data": [problem]}
        elif job.over:
            shape["request_counts"] |= {"completed": job.succeeded, "failed": job.failed}
            good = [row for row in job.rows if 200 <= row.status < 400]
            bad = [row for row in job.rows if not 200 <= row.status < 400]
            shape["output_file_id"] = self._results(job, "output", good, _openai_line)
            shape["error_file_id"] = self._results(job, "error", bad, _openai_line)
        return shape

    def _results(
        self, job: _Job, kind: str, rows: Sequence[_Row], line: Callable[[_Row], dict[str, Any]]
    ) -> str | None:
        """The id of a file of results, made once; None for an empty one."""
        number = f"file-{kind}-{job.id}"
        if not rows:
            return None
        return self.files.put(
            number, f"{job.id}_{kind}.jsonl", lambda: b"".join(_result_lines(job, rows, line))
        )

    # Mistral.

    def _mistral(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        number, _, action = rest.partition("/")
        if http.method == "POST" and not rest:
            body = object_of(http)
            lines = [line for file in body.get("input_files") or () for line in self.files.lines_of(file)]
            model, endpoint = str(body.get("model") or ""), str(body.get("endpoint"))
            requests = (
                (
                    str(line["custom_id"]),
                    HttpRequest(f"/mistral{endpoint}", _encode({"model": model, **line["body"]})),
                )
                for line in lines
            )
            about = {"endpoint": endpoint, "model": model, "file": (body.get("input_files") or [""])[0]}
            metadata = body.get("metadata") or {}
            return json_page(
                self._mistral_shape(
                    self._create("mistral", requests, prefix="job-", metadata=metadata, **about)
                )
            )
        if not rest:
            # Mistral's default.
            size, page = int(query.get("page_size") or 100), int(query.get("page") or 0)
            jobs = self._of("mistral")
            shown = [self._mistral_shape(job) for job in jobs[page * size : (page + 1) * size]]
            return json_page({"object": "list", "data": shown, "total": len(jobs)})
        job = self._job(number, "mistral")
        if action == "cancel":
            job.cancelled = True
        else:
            shape = self._mistral_shape(job)
            job.polls -= 1
            return json_page(shape)
        return json_page(self._mistral_shape(job))

    def _mistral_shape(self, job: _Job) -> dict[str, Any]:
        status = "RUNNING"
        if job.refused:
            status = "FAILED"
        elif job.over:
            status = "CANCELLED" if job.cancelled else "TIMEOUT_EXCEEDED" if job.expired else "SUCCESS"
        over = job.over and not job.refused
        good = [row for row in job.rows if 200 <= row.status < 400] if over else []
        bad = [row for row in job.rows if row.status >= 400] if over else []
        return {
            "id": job.id,
            "object": "batch",
            "input_files": [job.file],
            "endpoint": job.endpoint,
            "model": job.model,
            "metadata": job.metadata,
            "status": status,
            "errors": [{"message": "too many tokens are queued", "count": 1}] if job.refused else [],
            "output_file": self._results(job, "output", good, _openai_line),
            "error_file": self._results(job, "error", bad, _openai_line),
            "created_at": int(job.created.timestamp()),
            "total_requests": job.total,
            "completed_requests": job.succeeded + job.failed if over else 0,
            "succeeded_requests": job.succeeded if over else 0,
            "failed_requests": job.failed if over else 0,
        }

    # Anthropic.

    def _anthropic(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        number, _, action = rest.partition("/")
        if http.method == "POST" and not rest:
            given = object_of(http).get("requests")
            if not isinstance(given, list) or not given:
                raise BadRequest("requests: List should have at least 1 item", status=400)
            ids = [one.get("custom_id") for one in given]
            if len(set(ids)) < len(ids) or not all(_ANTHROPIC_ID.fullmatch(str(one)) for one in ids):
                raise BadRequest("requests: each needs a custom_id of its own", status=400)
            requests = (
                (one["custom_id"], HttpRequest("/v1/messages", _encode(one["params"]), http.headers))
                for one in given
            )
            return json_page(self._anthropic_shape(self._create("anthropic", requests, prefix="msgbatch_")))
        if not rest:
            jobs = self._of("anthropic")
            if query.get("after_id"):
                jobs = list(itertools.dropwhile(lambda job: job.id != query["after_id"], jobs))[1:]
            # Anthropic's default.
            limit = int(query.get("limit") or 20)
            shown = [self._anthropic_shape(job) for job in jobs[:limit]]
            first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
            more = len(jobs) > limit
            return json_page({"data": shown, "has_more": more, "first_id": first, "last_id": last})
        job = self._job(number, "anthropic")
        if action == "results":
            if not job.over:
                raise BadRequest("the batch is still in progress", status=400)
            return HttpResponse(200, b"".join(_result_lines(job, job.rows, _anthropic_line)), JSONL)
        if action == "cancel":
            job.cancelled = True
            return json_page(self._anthropic_shape(job))
        shape = self._anthropic_shape(job)
        job.polls -= 1
        return json_page(shape)

    def _anthropic_shape(self, job: _Job) -> dict[str, Any]:
        over = job.over
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if over:
            counts |= {"succeeded": job.succeeded, "errored": job.failed, "expired": job.expired}
        else:
            counts["processing"] = job.total
        address = f"{self._url()}/v1/messages/batches/{job.id}/results"
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if over else "in_progress",
            "request_counts": counts,
            "created_at": job.created.isoformat(),
            "expires_at": (job.created + _DAY).isoformat(),
            "ended_at": self._now().isoformat() if over else None,
            "cancel_initiated_at": None,
            "archived_at": None,
            "results_url": address if over else None,
        }

    # Google.

    def _google(
        self, http: HttpRequest, groups: Mapping[str, str | None], query: Mapping[str, str]
    ) -> HttpResponse:
        if groups["model"]:
            return json_page(self._google_job(self._new_google(groups["model"], object_of(http))))
        if not groups["jobs"]:
            return self.files.google_page(http, groups, query)
        rest = groups["jobs"].removeprefix("batches").strip("/")
        if not rest:
            size, at = int(query.get("pageSize") or 50), int(query.get("pageToken") or 0)
            jobs = self._of("google")
            shown = [self._google_job(job) for job in jobs[at : at + size]]
            more = {"nextPageToken": str(at + size)} if len(jobs) > at + size else {}
            return json_page({"operations": shown, **more})
        number, _, action = rest.partition(":")
        job = self._job(f"batches/{number}", "google")
        if action == "cancel":
            job.cancelled = True
            return json_page({})
        shape = self._google_job(job)
        job.polls -= 1
        return json_page(shape)

    def _new_google(self, model: str, body: dict[str, Any]) -> _Job:
        batch = body.get("batch") or {}
        source = batch.get("inputConfig") or batch.get("input_config") or {}
        file = source.get("fileName") or source.get("file_name") or ""
        if file:
            items = [(str(line["key"]), line["request"]) for line in self.files.lines_of(file)]
        else:
            inline = ((source.get("requests") or {}).get("requests")) or []
            items = [(str((one.get("metadata") or {}).get("key", n)), one["request"])
                     for n, one in enumerate(inline)]  # fmt: skip
        url = f"/v1beta/models/{model}:generateContent"
        requests = ((key, HttpRequest(url, _encode(_without_model(request)))) for key, request in items)
        name = str(batch.get("displayName") or batch.get("display_name") or "")
        return self._create("google", requests, prefix="batches/", name=name, model=model, file=file)

    def _google_job(self, job: _Job) -> dict[str, Any]:
        state = "RUNNING"
        if job.refused:
            state = "FAILED"
        elif job.over:
            state = "CANCELLED" if job.cancelled else "SUCCEEDED"
        over = job.over and not job.refused
        # Strings: JSON of protobuf has 64-bit integers as such.
        stats = {
            "requestCount": str(job.total),
            "successfulRequestCount": str(job.succeeded if over else 0),
            "failedRequestCount": str(job.failed + job.expired if over else 0),
        }
        about: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "name": job.id,
            "model": f"models/{job.model}",
            "displayName": job.name,
            "state": f"BATCH_STATE_{state}",
            "createTime": job.created.isoformat(),
            "updateTime": self._now().isoformat(),
            "batchStats": stats,
        }
        shape: dict[str, Any] = {"name": job.id, "metadata": about}
        if job.refused:
            # RESOURCE_EXHAUSTED of google.rpc.Code.
            shape |= {"done": True, "error": {"code": 8, "message": "too many tokens are queued"}}
        elif over:
            about["endTime"] = self._now().isoformat()
            if job.file:
                number = f"files/output-{job.number}"
                made = functools.partial(b"".join, _result_lines(job, job.rows, _google_line))
                self.files.put(number, f"{job.id}.jsonl", made)
                output: dict[str, Any] = {"responsesFile": number}
            else:
                rows = [_google_inline(row) for row in job.rows for _ in range(1 + row.twice)]
                output = {"inlinedResponses": {"inlinedResponses": rows}}
            about["output"] = output
            shape |= {"done": True, "response": output}
        return shape


_VERSION: Final = "(/v1(beta|alpha)?)?"
# The name of a dialect before the path; lazy, so that /files is not mistaken for one.
_PREFIX: Final = "(/[a-z-]+)??"
_GOOGLE_PATH: Final = re.compile(
    _PREFIX + "("
    rf"/upload{_VERSION}(?P<upload>/files)"
    rf"|(/download)?{_VERSION}/(?P<download>files/[^/:]+):download"
    rf"|{_VERSION}(?P<files>/files)"
    rf"|{_VERSION}/models/(?P<model>[^/:]+):batchGenerateContent"
    rf"|{_VERSION}/(?P<jobs>batches(/[^/]+)?)"
    ")/?"
)
_PATH: Final = re.compile(
    _PREFIX + "("
    "/v1/messages/batches(?P<anthropic>(/[^/]+){0,2})"
    "|/v1/batch/jobs(?P<mistral>(/[^/]+){0,2})"
    "|/v1/files(?P<files>(/[^/]+){0,2})"
    "|/v1/batches(?P<openai>(/[^/]+){0,2})"
    ")/?"
)
# Anthropic's rule for a custom_id.
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_google(http: HttpRequest, path: str) -> bool:
    named = path.startswith(("/upload/", "/download/", "/v1beta/", "/batches", "/files")) or ":batch" in path
    # An upload goes to the address that was given for it, without a key.
    return named or "x-goog-api-key" in http.headers or "upload_id=" in http.url


def _is_nth(number: int, every: int) -> bool:
    return bool(every) and number % every == 0


def _without_model(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "model"}


def _result_lines(job: _Job, rows: Sequence[_Row], line: Callable[[_Row], dict[str, Any]]) -> Iterator[bytes]:
    if job.foreign:
        yield b"\n{not json\n" + _encode(line(_Row("someone-elses-0000", 200, b'{"x":1}'))) + b"\n"
    for row in rows:
        for _ in range(1 + row.twice):
            yield _encode(line(row)) + b"\n"


def _openai_line(row: _Row) -> dict[str, Any]:
    about = {"id": f"batch_req_{row.custom_id}", "custom_id": row.custom_id}
    if row.status == 0:
        late = {
            "code": "batch_expired",
            "message": "This request could not be executed before the completion window expired.",
        }
        return {**about, "response": None, "error": late}
    body = msgspec.Raw(row.body)
    return {**about, "response": {"status_code": row.status, "request_id": "r", "body": body}, "error": None}


def _anthropic_line(row: _Row) -> dict[str, Any]:
    if row.status == 0:
        return {"custom_id": row.custom_id, "result": {"type": "expired"}}
    body = msgspec.Raw(row.body)
    if row.status < 400:
        return {"custom_id": row.custom_id, "result": {"type": "succeeded", "message": body}}
    # A scripted failure has no body in the form of the vendor.
    error = {"type": "error", "error": {"type": "api_error", "message": "failed"}}
    found = _lines.decode(row.body)
    if isinstance(found.get("error"), dict) and found.get("type") == "error":
        error = found
    return {"custom_id": row.custom_id, "result": {"type": "errored", "error": error}}


def _google_line(row: _Row) -> dict[str, Any]:
    return {"key": row.custom_id, **_google_outcome(row)}


def _google_inline(row: _Row) -> dict[str, Any]:
    return {**_google_outcome(row), "metadata": {"key": row.custom_id}}


def _google_outcome(row: _Row) -> dict[str, Any]:
    if row.status == 0:
        # DEADLINE_EXCEEDED of google.rpc.Code.
        return {"error": {"code": 4, "message": "the deadline has passed"}}
    if row.status < 400:
        return {"response": msgspec.Raw(row.body)}
    # HTTP status to google.rpc.Code; 13, INTERNAL, for others.
    codes = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 503: 14}
    return {"error": {"code": codes.get(row.status, 13), "message": "failed"}}
