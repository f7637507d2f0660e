"""The batch APIs of OpenAI, Anthropic, Google and Mistral, with the faults that a batch may have.

Each request of a job is answered by the script when the job is created, as if it had been sent alone, and
is in `Simulator.requests` with the method BATCH.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.parser import BytesParser
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qs, unquote

import msgspec

from llmstream.errors import BadRequest, NotFound
from llmstream.exchange import HttpRequest, HttpResponse

__all__ = ["BatchFaults", "BatchPages", "SilentJob"]

Vendor: TypeAlias = Literal["openai", "anthropic", "google", "mistral"]
Answer: TypeAlias = Callable[[HttpRequest], HttpResponse]

_encode: Final = msgspec.json.Encoder().encode
_lines: Final = msgspec.json.Decoder(dict[str, Any])
_DAY: Final = datetime.timedelta(days=1)
_JSONL: Final = {"content-type": "application/jsonl"}


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
    refuse_jobs:  how many jobs fail as a whole, because too many tokens are queued
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
    polls: int
    foreign: bool = False
    refused: bool = False
    cancelled: bool = False

    @property
    def over(self) -> bool:
        return self.polls <= 0 or self.cancelled

    def count(self, *statuses: int) -> int:
        """How many requests have one of these statuses; those that were lost count as answered."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def succeeded(self) -> int:
        return self.total - self.expired - self.failed

    @property
    def expired(self) -> int:
        return self.count(0)

    @property
    def failed(self) -> int:
        return sum(row.status >= 400 for row in self.rows)


class SilentJob(Exception):
    """The job was created, and its client hears nothing of it."""


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
        self._files: dict[str, tuple[str, bytes]] = {}
        self._uploads: dict[str, str] = {}
        self._jobs: dict[str, _Job] = {}
        self._refused = self._silent = 0

    def page(self, http: HttpRequest) -> HttpResponse | None:
        """The answer to a request about batches and their files; None for any other.

        raises: BadRequest, NotFound; SilentJob
        """
        path, _, query = http.url.partition("?")
        found = _PATH.fullmatch(unquote(path))
        if found is None:
            return None
        parameters = {name: values[-1] for name, values in parse_qs(query).items()}
        groups = found.groupdict()
        if any(groups[name] for name in ("g_upload", "g_files", "g_download", "g_direct")):
            return self._google_file(http, groups, parameters)
        if groups["files"] is not None:
            return self._file_page(http, groups["files"].strip("/"))
        if groups["openai"] is not None:
            return self._openai(http, groups["openai"].strip("/"), parameters)
        if groups["mistral"] is not None:
            return self._mistral(http, groups["mistral"].strip("/"), parameters)
        if groups["anthropic"] is not None:
            return self._anthropic(http, groups["anthropic"].strip("/"), parameters)
        return self._google(http, groups, parameters)

    # Files.

    def _store(self, name: str, data: bytes, kind: str = "file-") -> str:
        number = f"{kind}sim{len(self._files)}"
        self._files[number] = (name, data)
        return number

    def _file_page(self, http: HttpRequest, rest: str) -> HttpResponse:
        """Files of OpenAI and Mistral, in a form that both understand."""
        if http.method == "POST" and not rest:
            name, data = _form_file(http)
            return _json(self._file(self._store(name, data)))
        number, _, action = rest.partition("/")
        if not rest:
            return _json({"object": "list", "data": [self._file(n) for n in reversed(self._files)],
                          "has_more": False, "total": len(self._files)})  # fmt: skip
        if number not in self._files:
            raise NotFound(f"No such File object: {number}", status=404)
        if action == "content":
            return HttpResponse(200, self._files[number][1], _JSONL)
        return _json(self._file(number))

    def _file(self, number: str) -> dict[str, Any]:
        name, data = self._files[number]
        return {
            "id": number,
            "object": "file",
            "bytes": len(data),
            "created_at": int(self._now().timestamp()),
            "filename": name,
            "purpose": "batch",
            "status": "processed",
            "sample_type": "batch_request",
            "source": "upload",
        }

    def _google_file(
        self, http: HttpRequest, groups: Mapping[str, str | None], query: Mapping[str, str]
    ) -> HttpResponse:
        if wanted := groups["g_download"] or groups["g_direct"]:
            data = self._files.get(wanted)
            if data is None:
                raise NotFound("the file does not exist", status=404)
            return HttpResponse(200, data[1], _JSONL)
        if groups["g_files"] is not None:
            files = [self._google_shape(number) for number in self._files]
            return _json({"files": files})
        if "upload_id" in query:
            number = self._store(self._uploads.pop(query["upload_id"]), http.body, "files/")
            shown = _json({"file": self._google_shape(number)})
            return msgspec.structs.replace(shown, headers={**shown.headers, "x-goog-upload-status": "final"})
        about = (_object(http).get("file") or {}) if http.body else {}
        upload = f"up{len(self._uploads)}-{len(self._files)}"
        self._uploads[upload] = str(about.get("display_name") or about.get("displayName") or "")
        address = f"{self._url()}/upload/v1beta/files?upload_id={upload}"
        return HttpResponse(200, b"{}", {"content-type": "application/json", "x-goog-upload-url": address})

    def _google_shape(self, number: str) -> dict[str, Any]:
        name, data = self._files[number]
        return {
            "name": number,
            "displayName": name,
            "sizeBytes": str(len(data)),
            "mimeType": "application/jsonl",
            "state": "ACTIVE",
            "uri": f"{self._url()}/v1beta/{number}",
            "downloadUri": f"{self._url()}/v1beta/{number}:download?alt=media",
        }

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

    def _polled(self, job: _Job) -> _Job:
        job.polls -= 1
        return job

    def _of(self, vendor: Vendor) -> list[_Job]:
        """The jobs of a vendor, the newest first."""
        return [job for job in reversed(self._jobs.values()) if job.vendor == vendor]

    # OpenAI.

    def _openai(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        number, _, action = rest.partition("/")
        if http.method == "POST" and not rest:
            return _json(self._openai_shape(self._new_openai(_object(http))))
        if not rest:
            jobs = self._of("openai")
            if query.get("after"):
                jobs = list(itertools.dropwhile(lambda job: job.id != query["after"], jobs))[1:]
            limit = int(query.get("limit") or 20)
            shown = [self._openai_shape(job) for job in jobs[:limit]]
            return _json({"object": "list", "data": shown, "has_more": len(jobs) > limit})
        job = self._job(number, "openai")
        if action == "cancel":
            job.cancelled = True
            return _json(self._openai_shape(job))
        shape = self._openai_shape(job)
        self._polled(job)
        return _json(shape)

    def _new_openai(self, body: dict[str, Any]) -> _Job:
        lines = self._lines_of(body.get("input_file_id"))
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

    def _lines_of(self, number: object) -> list[dict[str, Any]]:
        if number not in self._files:
            raise BadRequest(f"No such File object: {number}", status=400)
        lines = [_lines.decode(line) for line in self._files[str(number)][1].splitlines() if line.strip()]
        ids = [line.get("custom_id", line.get("key")) for line in lines]
        if len(set(ids)) < len(ids):
            raise BadRequest("The custom_id of a request is used twice in the file", status=400)
        return lines

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
            "request_counts": {"total": job.total, "completed": job.succeeded, "failed": job.failed},
            "metadata": job.metadata,
        }
        if job.refused:
            full = "Enqueued token limit reached. Please try again once other batches are completed."
            problem = {"code": "token_limit_exceeded", "message": full, "param": None, "line": None}
            shape["errors"] = {"object": "list", "data": [problem]}
        elif job.over:
            good = [row for row in job.rows if 200 <= row.status < 400]
            bad = [row for row in job.rows if row not in good]
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
        if number not in self._files:
            self._files[number] = (f"{job.id}_{kind}.jsonl", b"".join(_result_lines(job, rows, line)))
        return number

    # Mistral.

    def _mistral(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        number, _, action = rest.partition("/")
        if http.method == "POST" and not rest:
            body = _object(http)
            lines = [line for file in body.get("input_files") or () for line in self._lines_of(file)]
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
            return _json(
                self._mistral_shape(
                    self._create("mistral", requests, prefix="job-", metadata=metadata, **about)
                )
            )
        if not rest:
            size, page = int(query.get("page_size") or 100), int(query.get("page") or 0)
            jobs = self._of("mistral")
            shown = [self._mistral_shape(job) for job in jobs[page * size : (page + 1) * size]]
            return _json({"object": "list", "data": shown, "total": len(jobs)})
        job = self._job(number, "mistral")
        if action == "cancel":
            job.cancelled = True
        else:
            shape = self._mistral_shape(job)
            self._polled(job)
            return _json(shape)
        return _json(self._mistral_shape(job))

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
            given = _object(http).get("requests")
            if not isinstance(given, list) or not given:
                raise BadRequest("requests: List should have at least 1 item", status=400)
            ids = [one.get("custom_id") for one in given]
            if len(set(ids)) < len(ids) or not all(_ANTHROPIC_ID.fullmatch(str(one)) for one in ids):
                raise BadRequest("requests: each needs a custom_id of its own", status=400)
            requests = (
                (one["custom_id"], HttpRequest("/v1/messages", _encode(one["params"]), http.headers))
                for one in given
            )
            return _json(self._anthropic_shape(self._create("anthropic", requests, prefix="msgbatch_")))
        if not rest:
            jobs = self._of("anthropic")
            if query.get("after_id"):
                jobs = list(itertools.dropwhile(lambda job: job.id != query["after_id"], jobs))[1:]
            limit = int(query.get("limit") or 20)
            shown = [self._anthropic_shape(job) for job in jobs[:limit]]
            first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
            more = len(jobs) > limit
            return _json({"data": shown, "has_more": more, "first_id": first, "last_id": last})
        job = self._job(number, "anthropic")
        if action == "results":
            if not job.over:
                raise BadRequest("the batch is still in progress", status=400)
            return HttpResponse(200, b"".join(_result_lines(job, job.rows, _anthropic_line)), _JSONL)
        if action == "cancel":
            job.cancelled = True
            return _json(self._anthropic_shape(job))
        shape = self._anthropic_shape(job)
        self._polled(job)
        return _json(shape)

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
        if groups["g_model"]:
            return _json(self._google_job(self._new_google(groups["g_model"], _object(http))))
        rest = (groups["google"] or "").strip("/")
        if not rest:
            size, at = int(query.get("pageSize") or 50), int(query.get("pageToken") or 0)
            jobs = self._of("google")
            shown = [self._google_job(job) for job in jobs[at : at + size]]
            more = {"nextPageToken": str(at + size)} if len(jobs) > at + size else {}
            return _json({"operations": shown, **more})
        number, _, action = rest.partition(":")
        job = self._job(f"batches/{number}", "google")
        if action == "cancel":
            job.cancelled = True
            return _json({})
        shape = self._google_job(job)
        self._polled(job)
        return _json(shape)

    def _new_google(self, model: str, body: dict[str, Any]) -> _Job:
        batch = body.get("batch") or {}
        source = batch.get("inputConfig") or batch.get("input_config") or {}
        file = source.get("fileName") or source.get("file_name") or ""
        if file:
            items = [(str(line["key"]), line["request"]) for line in self._lines_of(file)]
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
            shape |= {"done": True, "error": {"code": 8, "message": "too many tokens are queued"}}
        elif over:
            about["endTime"] = self._now().isoformat()
            if job.file:
                number = f"files/output-{job.number}"
                lines = b"".join(_result_lines(job, job.rows, _google_line))
                self._files.setdefault(number, (f"{job.id}.jsonl", lines))
                output: dict[str, Any] = {"responsesFile": number}
            else:
                rows = [_google_inline(row) for row in job.rows for _ in range(1 + row.twice)]
                output = {"inlinedResponses": {"inlinedResponses": rows}}
            about["output"] = output
            shape |= {"done": True, "response": output}
        return shape


_PATH: Final = re.compile(
    r"(?P<prefix>(/[a-z-]+)??)("
    r"/upload(/v1beta)?(?P<g_upload>/files)"
    r"|/download(/v1beta)?/(?P<g_download>files/[^/:]+):download"
    r"|(/v1beta)?/(?P<g_direct>files/[^/:]+):download"
    r"|(/v1beta)?(?P<g_files>/files)"
    r"|(/v1beta)?/models/(?P<g_model>[^/:]+):batchGenerateContent"
    r"|(/v1beta)?/batches(?P<google>(/[^/]+)?)"
    r"|/v1/messages/batches(?P<anthropic>(/[^/]+){0,2})"
    r"|/v1/batch/jobs(?P<mistral>(/[^/]+){0,2})"
    r"|/v1/files(?P<files>(/[^/]+){0,2})"
    r"|/v1/batches(?P<openai>(/[^/]+){0,2})"
    r")/?"
)
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_nth(number: int, every: int) -> bool:
    return bool(every) and number % every == 0


def _json(value: Any) -> HttpResponse:
    return HttpResponse(200, _encode(value), {"content-type": "application/json"})


def _object(http: HttpRequest) -> dict[str, Any]:
    """raises: BadRequest"""
    try:
        return _lines.decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadRequest("the body is not a JSON object", status=400) from None


def _form_file(http: HttpRequest) -> tuple[str, bytes]:
    """Name and content of the file of a form.

    raises: BadRequest
    """
    kind = http.headers.get("content-type", "")
    message = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + http.body)
    parts = message.get_payload()
    for part in parts if isinstance(parts, list) else ():
        if part.get_param("name", header="content-disposition") == "file":  # type: ignore[union-attr]
            data = part.get_payload(decode=True)  # type: ignore[union-attr]
            return part.get_filename() or "file", data if isinstance(data, bytes) else b""  # type: ignore[union-attr]
    raise BadRequest("the form has no file", status=400)


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
        return {"error": {"code": 4, "message": "the deadline has passed"}}
    if row.status < 400:
        return {"response": msgspec.Raw(row.body)}
    codes = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 503: 14}
    return {"error": {"code": codes.get(row.status, 13), "message": "failed"}}
