"""`inspect`: traces the streams of this process to a file, which an inspector follows."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, ParamSpec, Self

import msgspec

from llmstream.chats.content import Part
from llmstream.dialects.base import Decoder, Position
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import Event, encode, warning_text
from llmstream.exchange import redact_headers
from llmstream.inspector.tap import FrameTap, TappedDecoder
from llmstream.inspector.trace import (
    FORMAT,
    AttemptEnded,
    CallBegan,
    CallEnded,
    EventsSeen,
    Frame,
    Head,
    Line,
    Read,
    RequestSent,
    TraceBegan,
    encode_line,
    frame_of,
)
from llmstream.request import Request
from llmstream.simulator.recording import overwritten
from llmstream.streams.call import Call
from llmstream.streams.call_plan import Plan, Prepared
from llmstream.streams.http_call import HTTPCall
from llmstream.streams.model import Model, intercepted, opener_below
from llmstream.streams.observations import AttemptFailed, Observation, joined
from llmstream.streams.options import Options
from llmstream.transport.http import Body
from llmstream.usage import Usage

__all__ = ["Inspection", "default_folder", "inspect"]

_P = ParamSpec("_P")

# One file for each process that traces; the oldest are deleted when another is made.
_MAX_FILES: Final = 50


def inspect(to: str | os.PathLike[str] | None = None, *, scrub: Iterable[str] = ()) -> Inspection:
    """Traces the streams of this process to a file from now on: bytes, reads with their times, events.

        ls.inspect()                        # until the process ends
        with ls.inspect("trace.jsonl"): ... # or within a block

    `llmstream inspect` shows the file, also while it grows. Keys of a model and credentials in headers are
    overwritten with asterisks. Prompts and responses are in the file as they are; only its owner can read it.
    Calls that have begun before are not traced.

    to:     the file, which is continued if it exists. Default: one for this process in the folder that
            `llmstream inspect` looks at
    scrub:  other secrets to overwrite
    raises: InvalidRequest if the file cannot be written
    """
    return Inspection(default_folder() / _name() if to is None else Path(to), scrub=scrub)


def default_folder() -> Path:
    """Where traces are without a path: $LLMSTREAM_TRACES, else next to other state of this user."""
    if given := os.environ.get("LLMSTREAM_TRACES", ""):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME", "")
    # XDG: a relative path is invalid and is ignored.
    if not os.path.isabs(base):
        local = os.environ.get("LOCALAPPDATA", "") if sys.platform == "win32" else ""
        base = local or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "llmstream" / "traces"


def _name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"


class Inspection:
    """Traces streams until it is closed; `inspect` makes one. Leaving its `with` block closes it.

    path: of the file
    """

    def __init__(self, path: Path, *, scrub: Iterable[str] = ()) -> None:
        self.path = path
        self._scrub = tuple(scrub)
        self._lock = threading.Lock()  # streams of other threads write too
        self._calls = 0
        self._file: IO[bytes] | None = _opened(path)
        began = TraceBegan(
            format=FORMAT,
            version=1,
            at=time.time(),
            ns=time.monotonic_ns(),
            program=os.path.basename(sys.argv[0]) if sys.argv else "",
            pid=os.getpid(),
        )
        self.write(began)
        self._block: AbstractContextManager[None] = intercepted(self)
        self._block.__enter__()
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"Inspection({str(self.path)!r}, {'open' if self._file is not None else 'closed'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Traces no further calls; those that are open end untraced. Idempotent."""
        with self._lock:
            file, self._file = self._file, None
        if file is None:
            return
        self._block.__exit__(None, None, None)
        atexit.unregister(self.close)
        with suppress(OSError):
            file.close()

    def write(self, *lines: Line, hidden: Sequence[str] = ()) -> None:
        """Writes lines immediately, so that they survive a killed process; a full disk is not an error."""
        data = b"".join(map(encode_line, lines))
        if hidden or self._scrub:
            # The longest first: one secret may be a part of another.
            data = overwritten(data, sorted({*hidden, *self._scrub} - {""}, key=len, reverse=True))
        with self._lock, suppress(OSError):
            if self._file is not None:
                self._file.write(data)

    def open(self, model: Model, request: Request, options: Options | None, started: float | None) -> Call:
        """Opens the call of a model, and traces it."""
        call = opener_below(self).open(model, request, options, started)
        with self._lock:
            self._calls += 1
            # Unique over processes and their restarts: a page shows all files of a folder together.
            name = f"{os.getpid():x}-{time.time_ns() // 1_000_000:x}-{self._calls}"
        return _TracedCall(call, _Notes(self, name, model), model, request)


def _opened(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise InvalidRequest(f"cannot write the trace {path}: {error.strerror or error}") from None
    # Files in any other folder are their owner's to delete.
    if path.parent == default_folder():
        for old in sorted(path.parent.glob("*.jsonl"))[:-_MAX_FILES]:
            with suppress(OSError):
                old.unlink()
    # Unbuffered, so that written lines survive if the process is killed.
    return os.fdopen(descriptor, "ab", buffering=0)


class _Notes:
    """Writes the lines of one call."""

    def __init__(self, to: Inspection, call: str, model: Model) -> None:
        self.call = call
        self.tap: FrameTap | None = None
        self._to = to
        self._model = model
        self._secrets: Callable[[], tuple[str, ...]] = model.known_secrets
        self._attempt = 0
        self._frames: list[Frame] = []  # written with what comes next: one write for all of a read

    def write(self, line: Line) -> None:
        """Writes a line with the call's secrets overwritten, behind the frames before it."""
        lines = [*self._frames, line]
        self._frames.clear()
        self._to.write(*lines, hidden=self._secrets())

    def began(self, request: Request, dialect: str, content_type: str) -> None:
        model = self._model
        try:
            asked = msgspec.json.encode(request)
        except (TypeError, ValueError):  # an option that JSON cannot hold
            asked = b"{}"
        self.write(
            CallBegan(
                call=self.call,
                ns=time.monotonic_ns(),
                provider=model.provider.name,
                model=request.model,
                dialect=dialect,
                content_type=content_type,
                request=msgspec.Raw(asked),
            )
        )

    def sent(self, prepared: Prepared) -> None:
        """A request is ready to be sent."""
        # Each attempt may have another key.
        self._secrets = prepared.secrets
        self._attempt += 1
        http = prepared.http
        line = RequestSent(
            call=self.call,
            ns=time.monotonic_ns(),
            attempt=self._attempt,
            method=http.method,
            url=http.url,
            headers=redact_headers(http.headers),
            body=http.body.decode("utf-8", "replace"),
            warnings=[warning_text(warning) for warning in prepared.encoded.warnings],
        )
        self.write(line)

    def frame(self, offset: int, data: bytes, *, complete: bool) -> None:
        self._frames.append(frame_of(self.call, offset, data, complete=complete))

    def batch(self, events: list[Event]) -> None:
        """The reader gets events."""
        places = self.tap.places(events) if self.tap is not None else [-1] * len(events)
        seen = [(place, msgspec.Raw(encode(event))) for place, event in zip(places, events, strict=True)]
        self.write(EventsSeen(call=self.call, ns=time.monotonic_ns(), events=seen))

    def observed(self, observation: Observation) -> None:
        """An observer of the call; of failed attempts."""
        if isinstance(observation, AttemptFailed):
            self.write(
                AttemptEnded(
                    call=self.call,
                    ns=time.monotonic_ns(),
                    attempt=observation.attempt,
                    error_code=observation.error_code,
                    status=observation.status,
                    wait_s=observation.wait_s,
                )
            )

    def ended(self, usage: Usage, error: LLMStreamError | None, *, left: bool) -> None:
        if self.tap is not None:
            self.tap.end_body()
        info = error.info if error is not None else None
        self.write(CallEnded(call=self.call, ns=time.monotonic_ns(), left=left, error=info, usage=usage))


class _TracedBody:
    """A response body whose reads are recorded."""

    def __init__(self, body: Body, notes: _Notes, tap: FrameTap) -> None:
        self.status, self.headers, self.url = body.status, body.headers, body.url
        self.abort, self.close, self.finish = body.abort, body.close, body.finish
        self._body, self._notes, self._tap = body, notes, tap
        # What is left of a body that broke belongs before this head.
        tap.end_body()
        self._offset = tap.offset
        notes.write(
            Head(
                call=notes.call,
                ns=time.monotonic_ns(),
                offset=tap.offset,
                status=body.status,
                headers=redact_headers(body.headers),
            )
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)  # a WebSocket can be steered

    async def read(self) -> bytes:
        """The next piece; b"" at the end."""
        return await self._noted(self._body.read())

    async def read_error(self) -> bytes:
        """The body of a refusal."""
        data = await self._noted(self._body.read_error())
        self._tap.note(data)
        return data

    async def read_all(self, max_bytes: int) -> bytes:
        """A response that is not streamed; its frame is recorded as the decoder reads it."""
        return await self._noted(self._body.read_all(max_bytes))

    async def _noted(self, reading: Awaitable[bytes]) -> bytes:
        began = time.monotonic_ns()
        data = await reading
        now, offset = time.monotonic_ns(), self._offset
        self._offset += len(data)
        line = Read(call=self._notes.call, ns=now, waited_ns=now - began, offset=offset, size=len(data))
        self._notes.write(line)
        return data


class _TracedCall:
    """A call that is recorded while it is read."""

    def __init__(self, call: Call, notes: _Notes, model: Model, request: Request) -> None:
        self._call, self._notes = call, notes
        self._begin: tuple[Model, Request] | None = (model, request)
        self._over = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._call, name)

    @property
    def error(self) -> LLMStreamError | None:
        """The error to raise at the end of iteration, or None."""
        return self._call.error

    @error.setter
    def error(self, error: LLMStreamError | None) -> None:
        self._call.error = error

    @property
    def earlier(self) -> Position | None:
        """The value of `position` before the last batch."""
        return self._call.earlier

    @earlier.setter
    def earlier(self, position: Position | None) -> None:
        self._call.earlier = position

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._call.usage

    @property
    def headers(self) -> Mapping[str, str]:
        return self._call.headers

    @property
    def answered_by(self) -> str | None:
        return self._call.answered_by

    @property
    def position(self) -> Position | None:
        return self._call.position

    async def next(self) -> list[Event]:
        if self._begin is not None:
            self._prepare(*self._begin)
        events = await self._call.next()
        if events:
            self._notes.batch(events)
        else:
            self._ended(left=False)
        return events

    def _prepare(self, model: Model, request: Request) -> None:
        """Begins the trace: when the call is read, not when it is made."""
        self._begin = None
        call, notes = self._call, self._notes
        # Only a real call has bytes; others, such as those of a scripted model, have events.
        if isinstance(call, HTTPCall):
            call._plan = _traced(call._plan, notes)
            dialect = model.provider.dialect
            notes.began(request, dialect.name, call._plan.content_type)
        else:
            notes.began(request, "", "")

    def _ended(self, *, left: bool) -> None:
        if not self._over and self._begin is None:
            self._over = True
            self._notes.ended(self._call.usage, self._call.error, left=left)

    def close(self) -> None:
        """Leaves at once."""
        self._call.close()
        self._ended(left=True)

    async def aclose(self) -> None:
        """Leaves as `close` does, and waits for cleanup."""
        try:
            await self._call.aclose()
        finally:
            self._ended(left=True)

    async def steer(self, content: Sequence[Part]) -> None:
        """Sends input to the model while it responds."""
        await self._call.steer(content)


def _traced(plan: Plan, notes: _Notes) -> Plan:
    """The plan of a recorded call."""
    tap = notes.tap = FrameTap(plan.content_type, notes.frame)

    def noted(prepare: Callable[_P, Awaitable[Prepared]]) -> Callable[_P, Awaitable[Prepared]]:
        async def prepared(*args: _P.args, **kwargs: _P.kwargs) -> Prepared:
            found = await prepare(*args, **kwargs)
            notes.sent(found)
            return found

        return prepared

    def decoder() -> Decoder:
        return TappedDecoder(plan.decoder(), tap)

    stored = plan.stored
    return msgspec.structs.replace(
        plan,
        prepare=noted(plan.prepare),
        stored=None if stored is None else msgspec.structs.replace(stored, reopen=noted(stored.reopen)),
        continued=None if plan.continued is None else noted(plan.continued),
        decoder=decoder,
        observe=joined(plan.observe, notes.observed),
        body=lambda body: _TracedBody(body, notes, tap),
    )
