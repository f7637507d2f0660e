"""Where calls come from: traces, which may still grow; recordings, cassettes, caches, event logs, stores.

`Calls` has all calls of a list of places. `refresh` reads new data; it is called for each request of the
page, and costs little if there is none.
"""

from __future__ import annotations

import base64
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from llmstream.addresses import sqlite_path
from llmstream.chats.content import Reasoning, Text, ToolCall
from llmstream.chats.message import Message
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import ErrorInfo, InvalidRequest
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    decode,
    encode,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.inspector.calls import CallTrace
from llmstream.inspector.tap import FrameTap, TappedDecoder
from llmstream.inspector.trace import (
    CallBegan,
    CallEnded,
    EventsSeen,
    Read,
    TraceBegan,
    decode_line,
    frame_of,
)
from llmstream.middleware.caching.form import Answer, decode_answer
from llmstream.simulator.recording import Recording
from llmstream.store.database import Connection
from llmstream.store.rows import read_message
from llmstream.store.sqlite import APPLICATION
from llmstream.store.store import open_store
from llmstream.testing.cassette_file import read_cassette
from llmstream.usage import Usage

__all__ = ["Calls", "Decoding", "FindDecoding", "from_body"]

# Enough for the first events of a body, by which its dialect is recognised.
_HEAD_BYTES: Final = 8192
_NS: Final = 1_000_000_000
# How many calls are held; the oldest of a folder of traces are left out.
_MAX_CALLS: Final = 2_000
# Time between two scans of folders: large ones are scanned less often.
_POLL_S: Final = 0.1
_LOOK_SHARE: Final = 20
_BODIES: Final = frozenset({".sse", ".ndjson", ".txt", ".bin", ".eventstream"})
# How many turns of a store are read: each is a message to decode, whenever another process has written.
_MAX_TURNS: Final = 500
_TURNS: Final = """
select t.n, c.id, t.provider, t.model, t.state, t.finish, t.input_tokens, t.output_tokens, t.cost, t.started,
    t.first_s, t.total_s, t.error, t.head
from turns t join conversations c on c.n = t.conversation order by t.n desc limit ?
"""


class Decoding(NamedTuple):
    """How a recorded body is decoded."""

    dialect: Dialect
    provider: str


FindDecoding: TypeAlias = Callable[[bytes], Decoding]
"""The dialect of a body by its beginning, or the requested one; raises InvalidRequest."""


class Calls:
    """All calls of some places.

    places: files, folders, or "sqlite:PATH" of an event log or a store of conversations
    find:   how recorded bodies are decoded
    raises: InvalidRequest if a place that was named cannot be read
    """

    def __init__(self, places: Iterable[str], find: FindDecoding) -> None:
        self._find = find
        self._calls: dict[str, CallTrace] = {}
        self._files: dict[Path, _Growing] = {}
        self._known: dict[Path, tuple[int, int]] = {}
        self._databases: list[_EventLog | _StoredCalls] = []
        self._folders: list[Path] = []
        self._look_at = 0.0
        self.version = 0
        for place in places:
            self._add(place)

    def __len__(self) -> int:
        return len(self._calls)

    def list(self) -> list[CallTrace]:
        """All calls, the newest first."""
        return sorted(self._calls.values(), key=lambda call: (call.began_at, call.start_ns), reverse=True)

    def get(self, call_id: str) -> CallTrace | None:
        """One of them."""
        return self._calls.get(call_id)

    def put(self, call: CallTrace) -> None:
        """Adds a call that was made of another."""
        self._calls[call.id] = call
        self.version += 1

    def refresh(self) -> int:
        """Reads new data; returns a number that increases with each change."""
        if self._folders and (began := time.monotonic()) >= self._look_at:
            for folder in self._folders:
                self._scan_folder(folder)
            ended = time.monotonic()
            self._look_at = ended + max(_POLL_S, _LOOK_SHARE * (ended - began))
        for growing in self._files.values():
            self.version += growing.read(self._calls)
        for database in self._databases:
            self.version += database.read(self._calls)
        if len(self._calls) > _MAX_CALLS:
            for call in self.list()[_MAX_CALLS:]:
                del self._calls[call.id]
        return self.version

    def _add(self, place: str) -> None:
        given = sqlite_path(place)
        found = Path(os.path.expanduser(given or place))
        if given or _is_sqlite(found):
            self._databases.append(_StoredCalls(found) if _is_store(found) else _EventLog(found))
            return
        # A folder with this file is one recording.
        if found.is_dir() and not (found / "response.bin").exists():
            self._folders.append(found)
            return
        if not found.exists():
            raise InvalidRequest(f"cannot read {place}: there is no such file or folder. Check the path.")
        if not self._read(found):
            raise InvalidRequest(f"{place} has no call: it is empty.")

    def _scan_folder(self, folder: Path) -> None:
        """Reads the files of a folder that have changed; those that are something else are passed over."""
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            try:
                state = path.stat()
            except OSError:
                continue
            stamp = (state.st_mtime_ns, state.st_size)
            if not path.is_file() or path in self._files or self._known.get(path) == stamp:
                continue
            self._known[path] = stamp
            if path.name == "response.bin":
                path = path.parent
            elif path.suffix not in {".jsonl", ".json", *_BODIES} or path.name.endswith("timing.jsonl"):
                # Timing files belong to the recording next to them.
                continue
            try:
                self._read(path)
            except (InvalidRequest, OSError):
                continue

    def _read(self, path: Path) -> bool:
        try:
            head = _head(path / "response.bin" if path.is_dir() else path)
        except OSError as error:
            raise InvalidRequest(f"cannot read {path}: {error.strerror or error}. Check the path.") from None
        if b'"llmstream.trace"' in head:
            growing = self._files[path] = _Growing(path)
            self.version += growing.read(self._calls)
            return True
        if b'"llmstream.cache"' in head or b'"llmstream.cassette"' in head:
            found = _answers(path, is_cache=b'"llmstream.cache"' in head)
        else:
            if not head:
                return False
            decoding = self._find(head)  # before all of a file is read that may be anything
            found = [from_body(Recording.load(path), decoding, path.name)]
        for place, call in enumerate(found):
            call.id = f"{_slug(path)}-{place}"
            # A body has no date.
            call.began_at = call.began_at or path.stat().st_mtime
            self.put(call)
        return bool(found)


def _is_sqlite(path: Path) -> bool:
    try:
        return path.is_file() and _head(path).startswith(b"SQLite format 3\0")
    except OSError:
        return False


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD_BYTES)


# By the path: files of one name may be in several folders.
def _slug(path: Path) -> str:
    return base64.urlsafe_b64encode(str(path.resolve()).encode()).decode().rstrip("=")


class _Growing:
    """A trace that may still be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._clock: TraceBegan | None = None

    def read(self, calls: dict[str, CallTrace]) -> int:
        """Reads new lines into their calls; returns how many there were."""
        try:
            if self._path.stat().st_size <= self._at:
                return 0
            with open(self._path, "rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:  # deleted meanwhile
            return 0
        end = data.rfind(b"\n") + 1  # half a line is read again
        self._at += end
        count = 0
        for text in data[:end].splitlines():
            try:
                line = decode_line(text)
            except ValueError:  # a process was killed within a line, and another continued
                continue
            if line is None:
                continue
            count += 1
            if isinstance(line, TraceBegan):
                self._clock = line
            else:
                self._call_of(line.call, line.ns if isinstance(line, CallBegan) else None, calls).feed(line)
        return count

    def _call_of(self, call_id: str, ns: int | None, calls: dict[str, CallTrace]) -> CallTrace:
        found = calls.get(call_id)
        if found is None:
            clock = self._clock
            at = clock.at + (ns - clock.ns) / _NS if clock is not None and ns is not None else 0.0
            program = f"{clock.program} " if clock is not None and clock.program else ""
            found = calls[call_id] = CallTrace(call_id, f"{program}({self._path.name})", at)
        return found


def from_body(recording: Recording, decoding: Decoding, source: str) -> CallTrace:
    """A recorded body, decoded as by a call; times are those of its pieces."""
    call = CallTrace("recording", source)
    dialect, provider = decoding
    tap = FrameTap(
        dialect.content_type,
        lambda offset, data, *, complete: call.feed(frame_of(call.id, offset, data, complete=complete)),
    )
    guarded = GuardedDecoder(TappedDecoder(dialect.decoder(provider=provider), tap), provider=provider)
    call.feed(
        CallBegan(
            call=call.id,
            ns=0,
            provider=provider,
            model="",
            dialect=dialect.name,
            content_type=dialect.content_type,
        )
    )
    ns, offset = 0, 0

    def see(events: list[Event]) -> None:
        if events:
            pairs = [
                (place, msgspec.Raw(encode(event)))
                for place, event in zip(tap.places(events), events, strict=True)
            ]
            call.feed(EventsSeen(call=call.id, ns=ns, events=pairs))

    see(guarded.start())
    for due_s, piece in recording.pieces():
        before, ns = ns, round(due_s * _NS)
        call.feed(Read(call=call.id, ns=ns, waited_ns=ns - before, offset=offset, size=len(piece)))
        offset += len(piece)
        see(guarded.feed(piece))
    tap.end_body()
    see(guarded.close())
    error = guarded.error.info if guarded.error is not None else None
    call.feed(CallEnded(call=call.id, ns=ns, error=error, usage=guarded.decoder.usage))
    return call


def _answers(path: Path, *, is_cache: bool) -> list[CallTrace]:
    """The answers of a cassette or cache: events and their times, without bytes."""
    try:
        if is_cache:
            return [_from_answer(decode_answer(path.read_bytes()), {}, path.name)]
        return [
            _from_answer(each.answer, each.request, path.name)
            for each in read_cassette(path)
            if each.answer is not None
        ]
    except InvalidRequest:
        raise
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} is damaged: {error}") from None


def _from_answer(answer: Answer, request: dict[str, object], source: str) -> CallTrace:
    provider, _, model = str(request.get("model", "")).partition(":")
    call = CallTrace("answer", source, answer.stored or 0.0)
    raw = msgspec.Raw(msgspec.json.encode(request))
    call.feed(CallBegan(call=call.id, ns=0, provider=provider, model=model, request=raw))
    for at, events in answer.batches:
        _feed(call, round(at * _NS), [encode(event) for event in events])
    return call


def _feed(call: CallTrace, ns: int, events: list[bytes]) -> None:
    """Adds events that came together, and the end of the call if they end it."""
    call.feed(EventsSeen(call=call.id, ns=ns, events=[(-1, msgspec.Raw(data)) for data in events]))
    if call.events and call.events[-1].kind == "finish":
        call.feed(_end_of(call, ns))


def _end_of(call: CallTrace, ns: int) -> CallEnded:
    """The end of a call by its last events."""
    finish = decode(call.events[-1].data)
    assert isinstance(finish, Finish)
    error: ErrorEvent | None = None
    if finish.finish_reason == "error":
        found = (decode(seen.data) for seen in reversed(call.events) if seen.kind == "error")
        error = next((event for event in found if isinstance(event, ErrorEvent)), None)
    info = error.error if error is not None else None
    return CallEnded(call=call.id, ns=ns, error=info, usage=finish.usage)


class _EventLog:
    """The runs of an event log in SQLite; times are those of the commits.

    raises: InvalidRequest if it is none
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tails: dict[int, int] = {}
        if not path.exists():
            raise InvalidRequest(f"cannot read the event log {path}: there is no such file. Check the path.")
        try:
            self._rows("select count(*) from runs join batches on batches.run = runs.n")
        except sqlite3.Error as error:
            raise InvalidRequest(f"{path} is not an event log: {error}") from None

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=2.0)
        try:
            return database.execute(query, values).fetchall()
        finally:
            database.close()

    def read(self, calls: dict[str, CallTrace]) -> int:
        """Reads new events of changed runs; returns their number."""
        count = 0
        try:
            for n, run, tail, started in self._rows(
                "select n, run, tail, started from runs order by started desc limit ?", _MAX_CALLS
            ):
                if self._tails.get(n, -1) < tail:
                    self._read_run(n, started, calls.setdefault(f"log-{run}", self._call(run, started)))
                    count += 1
        except sqlite3.Error:  # locked for long, or deleted
            pass
        return count

    def _call(self, run: str, started: float) -> CallTrace:
        call = CallTrace(f"log-{run}", f"{self._path.name}: {run}", started)
        call.feed(CallBegan(call=call.id, ns=0, provider="", model=run))
        return call

    def _read_run(self, n: int, started: float, call: CallTrace) -> None:
        """Adds the batches after the last one that is known."""
        query = "select last, time, data from batches where run = ? and last > ? order by last"
        for last, at, data in self._rows(query, n, self._tails.get(n, -1)):
            _feed(call, round((at - started) * _NS), data.split(b"\n"))
            self._tails[n] = last


def _is_store(path: Path) -> bool:
    """Whether a file is a store of conversations."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2.0)
        try:
            return bool(database.execute("pragma application_id").fetchone()[0] == APPLICATION)
        finally:
            database.close()
    except sqlite3.Error:
        return False


class _StoredCalls:
    """The last 500 requests of a store of conversations: the answer, its duration and its cost.

    A store has messages, not events. So a call has one event for each part of its message, at the time of
    its first content or of its end.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._store = open_store(f"sqlite:{path.absolute()}", read_only=True)
        self._known: dict[int, str] = {}
        self._change = -1

    def read(self, calls: dict[str, CallTrace]) -> int:
        """Reads turns that are new or have ended; returns how many."""
        count = 0
        with self._store.database.reading() as db:
            # Costs a few microseconds; the turns are read only if another process has written.
            (change,) = db.execute("pragma data_version").fetchone()
            if change == self._change:
                return 0
            self._change = change
            for row in db.execute(_TURNS, (_MAX_TURNS,)).fetchall():
                if self._known.get(row[0]) != row[4]:
                    self._known[row[0]] = row[4]
                    call = self._call(db, row)
                    calls[call.id] = call
                    count += 1
        return count

    def _call(self, db: Connection, row: tuple[Any, ...]) -> CallTrace:
        n, chat, provider, model, state, finish, given, made, cost, started, first_s, total_s, error, head = (
            row
        )
        call = CallTrace(f"chat-{n}", f"{chat} ({self._name})", started)
        call.feed(CallBegan(call=call.id, ns=0, provider=provider, model=model))
        if state == "open":
            return call
        end = round((total_s or 0.0) * _NS)
        first = end if first_s is None else round(first_s * _NS)
        usage = Usage(given, made)
        events = [*_events_of(_message(db, head)), Finish(finish or "unknown", usage)]
        for event in events:
            ns = end if isinstance(event, Finish) else first
            raw = msgspec.Raw(encode(event))
            call.feed(EventsSeen(call=call.id, ns=ns, events=[(-1, raw)]))
        info = ErrorInfo("failed", error, False) if error else None
        if state == "lost":
            info = ErrorInfo(
                "producer-lost", "The process that sent the request ended before the answer did.", False
            )
        call.feed(CallEnded(call=call.id, ns=end, left=state == "left", error=info, usage=usage, cost=cost))
        return call


def _message(db: Connection, head: int | None) -> Message | None:
    row = db.execute("select n, files, body from messages where n = ?", (head,)).fetchone()
    return None if row is None else read_message(db, *row)


def _events_of(message: Message | None) -> Iterator[Event]:
    """Events that mean a message."""
    yield StreamStart()
    for place, part in enumerate(message.parts if message is not None else ()):
        name = str(place)
        match part:
            case Text(text=text):
                yield from (TextStart(name), TextDelta(text, name), TextEnd(name))
            case Reasoning(text=text):
                yield from (ReasoningStart(name), ReasoningDelta(text, name), ReasoningEnd(name))
            case ToolCall(id=call_id, name=tool, arguments=given):
                yield ToolInputStart(tool, call_id)
                yield ToolInputDelta(given, call_id)
                yield ToolInputEnd(call_id)
                yield ToolCallEvent(tool, given, call_id)
            case _:
                pass
