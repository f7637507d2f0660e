"""The batch APIs of the vendors, without I/O: which requests submit, find, watch and read a batch.

Each is a `BatchApi`. Its methods are generators that yield a request and receive its response, so that one
engine sends for all of them, and a test needs no server. Addresses are relative to the provider's;
`/:upload/` before a path is another root of the same host, as Google has it for files.

sources: OpenAI, Anthropic, Google and Mistral, their guides "Batch API" (seen 2026-11); openai 3.54.0,
anthropic 2.12.0, google-genai 3.4.0, mistralai 3.7.0
"""

from __future__ import annotations

import codecs
import datetime
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from llmstream.errors import DecodeError, Unsupported
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.providers.base import Provider

__all__ = ["BatchApi", "JobState", "NewJob", "Outcome", "Steps", "api_of"]

T = TypeVar("T")
Steps: TypeAlias = Generator[HttpRequest, HttpResponse, T]

# A part of a batch is held in memory while it is sent. Vendors take more in one file: OpenAI 200 MB,
# Anthropic 256 MB, Mistral 512 MB, Google 2 GB.
_PART_BYTES: Final = 24 * 1024 * 1024
# 5,000 jobs: an account that has more of them since the submission is searched no further.
_PAGES: Final = 50
# A job is created by the vendor's clock and looked for by ours.
_CLOCK_SKEW_S: Final = 300.0
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class NewJob:
    """A job as it is submitted.

    name:     unique; identifies the job after a crash
    endpoint: path of the requests, as the dialect has it
    headers:  that each request alone would have
    at:       Unix time in seconds before which it was certainly not created
    file:     the uploaded file; "" where the requests go along
    """

    name: str
    endpoint: str
    model: str
    count: int
    at: float
    headers: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True)
class JobState:
    """The state of a job as the vendor reports it.

    over:      no more results will come
    finished:  how many requests have an outcome so far
    downloads: requests for its results, JSON lines each
    inline:    the results themselves, where the vendor has them in its answer
    problem:   why all of it failed; "" if it did not
    full:      it failed because too much is queued already: it may be accepted later
    missing:   it has ended and has answers, but does not name their file yet
    """

    over: bool
    finished: int = 0
    downloads: tuple[HttpRequest, ...] = ()
    inline: tuple[bytes, ...] = ()
    problem: str = ""
    full: bool = False
    missing: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of one request.

    status: as of a single request; 0 if it was not made: expired or cancelled
    body:   the complete answer, or the error
    """

    custom_id: str
    status: int
    body: bytes


class BatchApi:
    """One vendor's batch API.

    max_rows, max_bytes: of one part
    price_share: of the price of single requests
    by_name:     whether `find` is certain; else it returns candidates, which the ids of their results prove
    """

    max_rows: ClassVar[int] = 50_000
    max_bytes: ClassVar[int] = _PART_BYTES
    price_share: ClassVar[float] = 0.5
    by_name: ClassVar[bool] = True

    def line(self, custom_id: str, body: msgspec.Raw, endpoint: str) -> bytes:
        """One request of a batch, on one line."""
        raise NotImplementedError

    def upload(self, name: str, lines: Sequence[bytes]) -> Steps[str]:
        """Uploads the requests; returns the id of their file, "" if they go with `create`."""
        yield from ()
        return ""

    def find_file(self, name: str) -> Steps[str | None]:
        """The id of a file that was uploaded under a name; None if there is none."""
        yield from ()
        return None

    def create(self, job: NewJob, lines: Sequence[bytes]) -> Steps[str]:
        """Creates the job; returns its id. `lines` is empty if `job.file` has them."""
        raise NotImplementedError

    def find(self, job: NewJob) -> Steps[list[str]]:
        """Ids of the jobs that may be this one; see `by_name`."""
        raise NotImplementedError

    def state(self, job_id: str) -> Steps[JobState]:
        """The state of a job."""
        raise NotImplementedError

    def cancel(self, job_id: str) -> Steps[None]:
        """Ends a job. What it has answered stays readable."""
        raise NotImplementedError

    def outcome(self, line: bytes) -> Outcome | None:
        """Reads a line of results; None for a line that is none, such as one of another job."""
        raise NotImplementedError


def _get(url: str) -> HttpRequest:
    return HttpRequest(url, b"", {"accept": "application/json"}, "GET")


def _post(url: str, value: Any, headers: Mapping[str, str] = {}) -> HttpRequest:
    body = value if isinstance(value, bytes) else _encode(value)
    return HttpRequest(url, body, {"content-type": "application/json", **headers})


def _object(response: HttpResponse) -> dict[str, Any]:
    """raises: DecodeError"""
    try:
        return msgspec.json.decode(response.body.removeprefix(codecs.BOM_UTF8), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(f"the response of a batch API could not be read: {error}") from None


def _id(value: Mapping[str, Any], name: str = "id") -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise DecodeError(f"the response of a batch API has no {name}: {str(value)[:200]}")
    return found


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    """A number of requests; Google writes it as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return int(value)
    return value if type(value) is int else 0


def _segment(value: str) -> str:
    return quote(value, safe="-_.~")


def _form(name: str, lines: Sequence[bytes]) -> HttpRequest:
    """The upload of a file of requests, as OpenAI and Mistral take it."""
    # Unique by the random name of the job: no line of a request has it by accident.
    mark = f"llmstream-{name}-boundary"
    head = (
        f'--{mark}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{mark}\r\ncontent-disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
        "content-type: application/jsonl\r\n\r\n"
    )
    body = b"".join((head.encode(), *_with_ends(lines), f"\r\n--{mark}--\r\n".encode()))
    return HttpRequest("/files", body, {"content-type": f"multipart/form-data; boundary={mark}"})


def _with_ends(lines: Sequence[bytes]) -> Generator[bytes]:
    for line in lines:
        yield line
        yield b"\n"


class _Response(msgspec.Struct):
    status_code: int = 200
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: Any = None


_read_line: Final = msgspec.json.Decoder(_Line).decode


class _FilesApi(BatchApi):
    """Files of JSON lines, as OpenAI and, with other jobs, Mistral have them.

    prefix: of paths, before the provider's own
    """

    prefix: ClassVar[str] = ""
    jobs: ClassVar[str] = "/batches"

    def upload(self, name: str, lines: Sequence[bytes]) -> Steps[str]:
        form = _form(name, lines)
        return _id(_object((yield msgspec.structs.replace(form, url=self.prefix + form.url))))

    def find_file(self, name: str) -> Steps[str | None]:
        found = _object((yield _get(f"{self.prefix}/files?purpose=batch&limit=100&page_size=100")))
        names = {file.get("filename"): file.get("id") for file in _objects(found.get("data"))}
        return names.get(f"{name}.jsonl")

    def cancel(self, job_id: str) -> Steps[None]:
        yield _post(f"{self.prefix}{self.jobs}/{_segment(job_id)}/cancel", {})

    def outcome(self, line: bytes) -> Outcome | None:
        try:
            read = _read_line(line)
        except (msgspec.MsgspecError, ValueError):
            return None
        if read.response is not None and (read.error is None or read.response.status_code >= 400):
            return Outcome(read.custom_id, read.response.status_code, bytes(read.response.body))
        code = str(read.error.get("code") or "") if isinstance(read.error, dict) else ""
        # OpenAI's codes are `batch_expired` and `batch_cancelled`; neither request was made or billed.
        expired = "expired" in code or "cancel" in code
        return Outcome(read.custom_id, 0 if expired else 500, _encode({"error": read.error}))

    def _contents(self, found: Mapping[str, Any], *names: str) -> tuple[HttpRequest, ...]:
        ids = [found[name] for name in names if isinstance(found.get(name), str) and found[name]]
        return tuple(_get(f"{self.prefix}/files/{_segment(one)}/content") for one in ids)


class OpenAIBatches(_FilesApi):
    """Files and batches of OpenAI; 50,000 requests in a file, and a limit of queued tokens by tier."""

    def line(self, custom_id: str, body: msgspec.Raw, endpoint: str) -> bytes:
        return _encode({"custom_id": custom_id, "method": "POST", "url": f"/v1{endpoint}", "body": body})

    def create(self, job: NewJob, lines: Sequence[bytes]) -> Steps[str]:
        body = {
            "input_file_id": job.file,
            "endpoint": f"/v1{job.endpoint}",
            "completion_window": "24h",
            "metadata": {"llmstream": job.name},
        }
        headers = {**job.headers, "idempotency-key": job.name}
        return _id(_object((yield _post("/batches", body, headers))))

    def find(self, job: NewJob) -> Steps[list[str]]:
        after = ""
        for _ in range(_PAGES):
            found = _object((yield _get(f"/batches?limit=100{after}")))
            listed = _objects(found.get("data"))
            for one in listed:
                if _dict(one.get("metadata")).get("llmstream") == job.name:
                    return [_id(one)]
            # The list has the newest first; our job cannot be older than its submission.
            old = bool(listed) and _count(listed[-1].get("created_at")) < job.at - _CLOCK_SKEW_S
            before, after = after, f"&after={_segment(_id(listed[-1]))}" if listed else ""
            if not found.get("has_more") or after in ("", before) or old:
                break
        return []

    def state(self, job_id: str) -> Steps[JobState]:
        found = _object((yield _get(f"/batches/{_segment(job_id)}")))
        status, counts = found.get("status"), _dict(found.get("request_counts"))
        problems = _objects(_dict(found.get("errors")).get("data")) if status == "failed" else []
        return JobState(
            over=status in ("completed", "failed", "expired", "cancelled"),
            finished=_count(counts.get("completed")) + _count(counts.get("failed")),
            downloads=self._contents(found, "output_file_id", "error_file_id"),
            problem="; ".join(str(p.get("message") or p.get("code")) for p in problems[:3])
            or ("the batch failed" if status == "failed" else ""),
            full=any("token_limit" in str(p.get("code")) for p in problems),
            missing=_count(counts.get("completed")) > 0 and not found.get("output_file_id"),
        )


class MistralBatches(_FilesApi):
    """Files and jobs of Mistral. A job names the model, its requests do not."""

    prefix = "/v1"
    jobs = "/batch/jobs"
    max_rows = 100_000

    def line(self, custom_id: str, body: msgspec.Raw, endpoint: str) -> bytes:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        fields.pop("model", None)
        return _encode({"custom_id": custom_id, "body": fields})

    def create(self, job: NewJob, lines: Sequence[bytes]) -> Steps[str]:
        body = {
            "input_files": [job.file],
            "endpoint": job.endpoint,
            "model": job.model,
            "metadata": {"llmstream": job.name},
            "timeout_hours": 24,
        }
        return _id(_object((yield _post("/v1/batch/jobs", body, job.headers))))

    def find(self, job: NewJob) -> Steps[list[str]]:
        listed: list[dict[str, Any]] = []
        for page in range(_PAGES):
            found = _object((yield _get(f"/v1/batch/jobs?page={page}&page_size=100")))
            before, listed = listed, _objects(found.get("data"))
            for one in listed:
                if _dict(one.get("metadata")).get("llmstream") == job.name:
                    return [_id(one)]
            if len(listed) < 100 or listed == before:
                break
        return []

    def state(self, job_id: str) -> Steps[JobState]:
        found = _object((yield _get(f"/v1/batch/jobs/{_segment(job_id)}")))
        status = found.get("status")
        problems = "; ".join(str(one.get("message")) for one in _objects(found.get("errors"))[:3])
        return JobState(
            over=status in ("SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"),
            finished=_count(found.get("completed_requests")),
            downloads=self._contents(found, "output_file", "error_file"),
            problem=(problems or "the job failed") if status == "FAILED" else "",
            missing=_count(found.get("succeeded_requests")) > 0 and not found.get("output_file"),
        )


# What a single request would have been answered with.
_ANTHROPIC_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _AnthropicResult(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


class _AnthropicLine(msgspec.Struct):
    custom_id: str
    result: _AnthropicResult


_read_anthropic: Final = msgspec.json.Decoder(_AnthropicLine).decode


class AnthropicBatches(BatchApi):
    """Message batches of Anthropic: the requests go along, and a batch has no name.

    One that a dead process may have created is found by time and size, and proved by the ids of its results.
    """

    max_rows = 100_000
    by_name = False

    def line(self, custom_id: str, body: msgspec.Raw, endpoint: str) -> bytes:
        return _encode({"custom_id": custom_id, "params": body})

    def create(self, job: NewJob, lines: Sequence[bytes]) -> Steps[str]:
        body = b'{"requests":[%b]}' % b",".join(lines)
        headers = {**job.headers, "idempotency-key": job.name}
        return _id(_object((yield _post("/v1/messages/batches", body, headers))))

    def find(self, job: NewJob) -> Steps[list[str]]:
        ids: list[str] = []
        after = ""
        for _ in range(_PAGES):
            found = _object((yield _get(f"/v1/messages/batches?limit=100{after}")))
            listed = _objects(found.get("data"))
            for one in listed:
                if _unix(one.get("created_at")) < job.at - _CLOCK_SKEW_S:
                    return ids
                # A batch has no name and no metadata there: its size is all that the list shows of it.
                if sum(map(_count, _dict(one.get("request_counts")).values())) == job.count:
                    ids.append(_id(one))
            before, after = after, f"&after_id={_segment(_id(listed[-1]))}" if listed else ""
            if not found.get("has_more") or after in ("", before):
                break
        return ids

    def state(self, job_id: str) -> Steps[JobState]:
        path = f"/v1/messages/batches/{_segment(job_id)}"
        found = _object((yield _get(path)))
        counts = _dict(found.get("request_counts"))
        over = found.get("processing_status") == "ended"
        done = sum(_count(n) for name, n in counts.items() if name != "processing")
        return JobState(over, done, downloads=(_get(f"{path}/results"),) if over else ())

    def cancel(self, job_id: str) -> Steps[None]:
        yield _post(f"/v1/messages/batches/{_segment(job_id)}/cancel", {})

    def outcome(self, line: bytes) -> Outcome | None:
        try:
            read = _read_anthropic(line)
        except (msgspec.MsgspecError, ValueError):
            return None
        if read.result.type == "succeeded":
            return Outcome(read.custom_id, 200, bytes(read.result.message))
        if read.result.type in ("expired", "canceled"):
            return Outcome(read.custom_id, 0, b"")
        body = bytes(read.result.error)
        try:
            value = msgspec.json.decode(body)
            kind = value["error"]["type"]
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
            kind = ""
        return Outcome(read.custom_id, _ANTHROPIC_STATUS.get(kind, 500), body)


def _unix(value: object) -> float:
    try:
        return datetime.datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return float("inf")  # of unknown age: a candidate


# source: google.rpc.Code
_GOOGLE_STATUS: Final = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
_GOOGLE_NOT_MADE: Final = (1, 4)  # cancelled, and the deadline


class _GoogleLine(msgspec.Struct):
    key: Any = None
    metadata: dict[str, Any] | None = None
    response: msgspec.Raw = msgspec.Raw(b"")
    error: Any = None


_read_google: Final = msgspec.json.Decoder(_GoogleLine).decode


class GoogleBatches(BatchApi):
    """Batches of the Gemini API: requests go along up to 20 MB, else in a file."""

    # Below the 20 MB of a request, with room for the data around the requests.
    _inline_bytes: ClassVar[int] = 18 * 1024 * 1024

    def line(self, custom_id: str, body: msgspec.Raw, endpoint: str) -> bytes:
        return _encode({"key": custom_id, "request": body})

    def upload(self, name: str, lines: Sequence[bytes]) -> Steps[str]:
        data = b"".join(_with_ends(lines))
        if len(data) <= self._inline_bytes:
            return ""
        start = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(len(data)),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        begun = yield _post("/:upload/files", {"file": {"display_name": name}}, start)
        target = begun.headers.get("x-goog-upload-url", "")
        if not target.startswith("http"):
            raise DecodeError("Google's file API returned no address for the upload")
        send = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"}
        stored = _object((yield HttpRequest(target, data, send)))
        return _id(_dict(stored.get("file")), "name")

    def find_file(self, name: str) -> Steps[str | None]:
        found = _object((yield _get("/files?pageSize=100")))
        names = {file.get("displayName"): file.get("name") for file in _objects(found.get("files"))}
        return names.get(name)

    def create(self, job: NewJob, lines: Sequence[bytes]) -> Steps[str]:
        source: dict[str, Any] = {"fileName": job.file}
        if not job.file:
            items = [msgspec.json.decode(line) for line in lines]
            requests = [{"request": one["request"], "metadata": {"key": one["key"]}} for one in items]
            source = {"requests": {"requests": requests}}
        path = job.endpoint.rpartition(":")[0]
        body = {"batch": {"displayName": job.name, "inputConfig": source}}
        return _id(_object((yield _post(f"{path}:batchGenerateContent", body, job.headers))), "name")

    def find(self, job: NewJob) -> Steps[list[str]]:
        token = ""
        for _ in range(_PAGES):
            found = _object((yield _get(f"/batches?pageSize=100{token}")))
            for one in _objects(found.get("operations")):
                if _dict(one.get("metadata")).get("displayName") == job.name:
                    return [_id(one, "name")]
            before, token = token, f"&pageToken={_segment(str(found.get('nextPageToken') or ''))}"
            if not found.get("nextPageToken") or token == before:
                break
        return []

    def state(self, job_id: str) -> Steps[JobState]:
        found = _object((yield _get(f"/{quote(job_id, safe='/-_.~')}")))
        about = _dict(found.get("metadata"))
        status = str(about.get("state") or "").rpartition("STATE_")[2]
        output = _dict(about.get("output") or found.get("response"))
        stats = _dict(about.get("batchStats"))
        listed = output.get("inlinedResponses")
        listed = listed.get("inlinedResponses") if isinstance(listed, dict) else listed
        file = output.get("responsesFile")
        error = _dict(found.get("error") or about.get("error"))
        return JobState(
            over=status in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"),
            finished=sum(_count(stats.get(f"{name}RequestCount")) for name in ("successful", "failed")),
            downloads=(_get(f"/:download/{quote(str(file), safe='/-_.~')}:download?alt=media"),)
            if file
            else (),
            inline=tuple(map(_encode, _objects(listed))),
            problem=str(error.get("message") or "the batch failed") if status == "FAILED" else "",
            missing=_count(stats.get("successfulRequestCount")) > 0 and not (file or listed),
        )

    def cancel(self, job_id: str) -> Steps[None]:
        yield _post(f"/{quote(job_id, safe='/-_.~')}:cancel", {})

    def outcome(self, line: bytes) -> Outcome | None:
        try:
            read = _read_google(line)
        except (msgspec.MsgspecError, ValueError):
            return None
        custom_id = read.key if read.key is not None else (read.metadata or {}).get("key")
        if not isinstance(custom_id, str):
            return None
        if bytes(read.response) not in (b"", b"null"):
            return Outcome(custom_id, 200, bytes(read.response))
        code = read.error.get("code") if isinstance(read.error, dict) else None
        status = 0 if code in _GOOGLE_NOT_MADE else _GOOGLE_STATUS.get(code or 0, 500)
        return Outcome(custom_id, status, _encode({"error": read.error}))


_OPENAI: Final = OpenAIBatches()
_BY_PROVIDER: Final[Mapping[str, BatchApi]] = {
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": AnthropicBatches(),
    "google": GoogleBatches(),
    "mistral": MistralBatches(),
}
# Providers of the simulator are named by their dialect.
_SIMULATED: Final = {
    "sim": "openai",
    "sim-openai-responses": "openai",
    "sim-anthropic": "anthropic",
    "sim-gemini": "google",
    "sim-mistral": "mistral",
}


def api_of(provider: Provider) -> BatchApi:
    """The batch API of a provider.

    raises: Unsupported if it has none, or none that llmstream knows
    """
    api = _BY_PROVIDER.get(_SIMULATED.get(provider.name, provider.name))
    if api is None:
        names = ", ".join(name for name in _BY_PROVIDER if "-" not in name)
        raise Unsupported(
            f"no batch API of {provider.name} is known. Batches are supported by {names}; "
            "llmstream.map works with every provider, with one request per row.",
            provider=provider.name,
        )
    return api
