"""A conversation that tasks and threads can share: the list, those who wait for it, and its turns.

`ChatCache` is a folder of conversations.
"""

from __future__ import annotations

import asyncio
import errno
import os
import string
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import msgspec

from llmstream.chats.message import Message, Role, copy_message, copy_messages
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.files import read_file, replace_file
from llmstream.short_forms import counted

__all__ = ["Chat", "ChatCache", "ChatTurn", "History", "Look", "PlainTurn", "Reset", "logged_run"]

# What a stream or a run adds to a chat while it is read: the prompt, then each complete message.


# A context variable, so that no function between a log and a chat has to pass it.
logged_run: ContextVar[str] = ContextVar("llmstream_logged_run", default="")
"""The id under which an event log keeps the run that is read in this context; "" outside of one."""


class ChatTurn(Protocol):
    """Receives a turn as it is read. Chats that are stored have their own, which survives a crash."""

    def begin(self, prompt: Sequence[Message]) -> None:
        """Adds the prompt, before anything is sent. What it raises ends the stream."""

    def feed(self, events: Sequence[msgspec.Struct]) -> None:
        """Receives events before the reader sees them. Raises nothing."""

    def add(self, messages: Sequence[Message]) -> None:
        """Adds what follows: a response that is over or was left, results of its calls. Raises nothing.

        Without messages it only ends the response whose events have come.
        """


class PlainTurn:
    """The turn of a chat in memory: messages only, by its `append`."""

    def __init__(self, append: Callable[..., None]) -> None:
        self._append = append

    def begin(self, prompt: Sequence[Message]) -> None:
        """As in `ChatTurn`."""
        self.add(prompt)

    def feed(self, events: Sequence[msgspec.Struct]) -> None:
        """Does nothing: a chat in memory has no more to lose than its process."""

    def add(self, messages: Sequence[Message]) -> None:
        """As in `ChatTurn`."""
        if messages:
            self._append(*messages)


class Look(NamedTuple):
    """One consistent view of a history.

    length:  how many messages there are
    version: grows with every change; what `changed_since` takes
    epoch:   grows with every swap
    message: the requested one, or None if there is none
    """

    length: int
    version: int
    epoch: int
    message: Message | None


class History:
    """Messages that many tasks and threads share; no message in it is ever altered.

    Nothing here is bound to an event loop: a parked task is woken through the loop it runs in.
    The lock is held for list operations only, never while foreign code runs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._messages: list[Message] = []
        self._version = 0
        self._epoch = 0
        self._parked: set[asyncio.Future[None]] = set()

    def extend(self, messages: list[Message]) -> None:
        """Add messages at the end, all at once, and wake who waits."""
        with self._lock:
            self._messages.extend(messages)
            parked = self._change()
        _wake(parked)

    def swap(self, messages: list[Message]) -> None:
        """Exchange everything at once, begin a new epoch and wake who waits."""
        with self._lock:
            self._messages = list(messages)
            self._epoch += 1
            parked = self._change()
        _wake(parked)

    def snapshot(self, start: int = 0) -> list[Message]:
        """The messages of this moment from `start` (0 or more) on, in a list of the caller's."""
        with self._lock:
            return self._messages[start:]

    def last(self) -> Message | None:
        """The message at the end, or None."""
        with self._lock:
            return self._messages[-1] if self._messages else None

    def look(self, index: int = -1) -> Look:
        """Counters, and the message at `index`, read in one moment. A negative index finds none."""
        with self._lock:
            length = len(self._messages)
            message = self._messages[index] if 0 <= index < length else None
            return Look(length, self._version, self._epoch, message)

    async def changed_since(self, version: int) -> None:
        """Return once the version is another than this one; at once where it already is."""
        with self._lock:
            if self._version != version:
                return
            # Under the lock: a change between the check of the version and the wait would not wake it.
            waiter = asyncio.get_running_loop().create_future()
            self._parked.add(waiter)
        try:
            await waiter
        finally:
            with self._lock:
                self._parked.discard(waiter)

    @property
    def parked(self) -> int:
        """How many tasks wait for a change."""
        with self._lock:
            return len(self._parked)

    def _change(self) -> set[asyncio.Future[None]]:
        self._version += 1
        # Each task parks itself again, if it still waits.
        parked, self._parked = self._parked, set()
        return parked


def _wake(waiters: set[asyncio.Future[None]]) -> None:
    if not waiters:
        return
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:  # this thread runs no loop
        here = None
    for waiter in waiters:
        loop = waiter.get_loop()
        # Without the loop's wake-up pipe, which another thread needs.
        if loop is here:
            _release(waiter)
            continue
        with suppress(RuntimeError):  # raised if that loop is closed, and its tasks with it
            loop.call_soon_threadsafe(_release, waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    # Cancelled meanwhile.
    if not waiter.done():
        waiter.set_result(None)


# Reading a chat as it grows, each message once.


class Reset(msgspec.Struct, frozen=True):
    """The history was replaced: discard earlier messages, all follow again from the start.

    epoch: how many times the chat has been replaced; replacements in quick succession give one Reset
    """

    epoch: int


class Follower(AsyncIterator[Message | Reset]):
    """Yields the existing messages from a cursor on, then appended ones, without end.

    It holds nothing between two messages, so leaving the loop needs no closing; and a step that
    is cancelled (by a timeout around `anext`, say) loses no message: the next step continues.
    A cursor past the end waits until a message stands there.
    """

    def __init__(self, history: History, cursor: int) -> None:
        if cursor < 0:
            raise InvalidRequest(f"a chat is followed from message 0 or later, not from {cursor}")
        self._history = history
        self._cursor = cursor
        self._epoch = history.look().epoch

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Message | Reset:
        while True:
            look = self._history.look(self._cursor)
            # Before the message: after a replacement the cursor means nothing any more.
            if look.epoch != self._epoch:
                self._epoch, self._cursor = look.epoch, 0
                return Reset(look.epoch)
            if look.message is not None:
                self._cursor += 1
                return copy_message(look.message)
            await self._history.changed_since(look.version)


class Chat:
    """Messages in order, safe to share among tasks, event loops and threads.

    What goes in is copied and what comes out is a copy, metadata included, so no one can alter a
    chat except by `append` and `replace`. Both are atomic: others see all of it or none.
    `Chat()` works before any event loop exists. Two chats are equal only where they are the
    same one; compare `messages()` for what they say. An empty chat is falsy, as a list is.
    """

    def __init__(self, *messages: Message) -> None:
        self._history = History()
        if messages:
            self._history.extend(copy_messages(messages))

    def append(self, *messages: Message) -> None:
        """Add any number of messages at the end and wake everyone who waits.

        raises: InvalidRequest where one is no message or cannot be copied; then none is added
        """
        self._history.extend(copy_messages(messages))

    def replace(self, *messages: Message) -> None:
        """Replace the history, also by a shorter or empty one, and wake all waiters.

        raises: InvalidRequest as `append`; then nothing is exchanged
        """
        self._history.swap(copy_messages(messages))

    def __len__(self) -> int:
        return self._history.look().length

    def len(self) -> int:
        """The number of messages; the same as `len(chat)`."""
        return self._history.look().length

    def at(self, index: int) -> Message:
        """The message at an index, counted from 0.

        raises: IndexError outside of 0 .. len - 1, and so for every negative index
        """
        look = self._history.look(index)
        if look.message is None:
            raise IndexError(f"no message {index}: the chat has {look.length}, counted from 0")
        return copy_message(look.message)

    def last(self) -> Message | None:
        """The most recent message, or None."""
        message = self._history.last()
        return None if message is None else copy_message(message)

    def messages(self) -> list[Message]:
        """All messages, as copies that share nothing mutable with the chat."""
        return copy_messages(self._history.snapshot())

    def __iter__(self) -> Iterator[Message]:
        """Iterates over the current messages; messages appended meanwhile are not included."""
        return map(copy_message, self._history.snapshot())

    def each(self, fn: Callable[[int, Message], bool]) -> None:
        """Call fn(index, message) for every message of this moment, in order, until it gives False.

        fn may use the chat: what it appends is not visited by this call.
        """
        for index, message in enumerate(self):
            if fn(index, message) is False:
                return

    def by_sender(self, sender: str) -> list[Message]:
        """The messages of one sender, in order."""
        return copy_messages(m for m in self._history.snapshot() if m.sender == sender)

    def system_prompt(self) -> str:
        """The text of the first system message, wherever it stands; "" where there is none."""
        for message in self._history.snapshot():
            if message.role == Role.SYSTEM:
                return message.text
        return ""

    def since(self, offset: int) -> list[Message] | None:
        """The messages from an offset on; None where it is negative or nothing stands there yet."""
        messages = self._history.snapshot(offset) if offset >= 0 else []
        return copy_messages(messages) if messages else None

    async def wait(self, n: int, timeout_s: float | None = None) -> int:
        """Wait until there are more than `n` messages; returns how many there are.

        The count comes first: where it is enough already this returns at once, even with a
        timeout of 0 or in a cancelled task. To read a chat as it grows use `follow`: the number
        returned is the length, not a place to read from.

        raises: TimeoutError after timeout_s seconds (None waits for ever)
        """
        look = self._history.look()
        if look.length > n:
            return look.length
        try:
            async with asyncio.timeout(timeout_s):
                # A replacement also wakes it, and may result in fewer messages.
                while look.length <= n:
                    await self._history.changed_since(look.version)
                    look = self._history.look()
        except TimeoutError:
            look = self._history.look()  # messages that arrived together with the deadline count
            if look.length <= n:
                raise TimeoutError(
                    f"the chat has {look.length} messages, not more than {n}, after {timeout_s:g} s"
                ) from None
        return look.length

    def follow(self, cursor: int = 0) -> AsyncIterator[Message | Reset]:
        """Every message from a cursor on, once each, as they come; without end.

        After a `replace` it yields a `Reset` and then the new history from its start.

        raises: InvalidRequest where the cursor is negative
        """
        return Follower(self._history, cursor)

    def fork(self) -> Chat:
        """A separate chat with the same messages so far."""
        forked = Chat()
        # Never altered, so safe to share.
        forked._history.extend(self._history.snapshot())
        return forked

    def turn(self, model: str, asked: Mapping[str, object] = {}) -> ChatTurn:
        """What receives a turn of a stream or a run with `chat=`; theirs to call.

        model: the requested "provider:model"
        asked: the settings that were chosen, such as `temperature`, in the form of JSON
        """
        return PlainTurn(self.append)

    def to_json(self) -> bytes:
        """The saved form, a JSON document; see `llmstream.chats.saved`.

        raises: InvalidRequest where JSON cannot hold what a message holds
        """
        return dump_messages(self._history.snapshot())

    @classmethod
    def from_json(cls, data: bytes | str) -> Chat:
        """The chat that a saved form describes, in this version or any older one.

        raises: DecodeError where it is damaged, something else, or of a newer version
        """
        return cls(*load_messages(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the saved form atomically to a file that only its owner can read.

        A file of that name is replaced in one step; a symbolic link is replaced, not followed.

        raises: InvalidRequest as `to_json`, OSError where the folder cannot be written
        """
        replace_file(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Chat:
        """The chat that `save` wrote.

        raises: FileNotFoundError and other OSErrors, DecodeError as `from_json`
        """
        data = read_file(path)
        try:
            return cls.from_json(data)
        except DecodeError as error:
            raise DecodeError(f"{os.fspath(path)}: {error.message}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        # By the messages: a lock and waiting tasks cannot be pickled.
        return type(self), tuple(self.messages())

    def __repr__(self) -> str:
        return f"<Chat of {counted(len(self), 'message')}>"

    def _repr_markdown_(self) -> str | None:
        """The messages as Markdown, each below its sender, for notebooks; None if there are none."""
        from llmstream.chats.transcript import notebook_transcript  # loaded by those who have a notebook

        return notebook_transcript(self._history.snapshot()) or None


_ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")

# With the suffix well below the 255 bytes that file systems allow.
_MAX_ID_CHARACTERS = 128


class ChatCache:
    """Chats by id in a private folder (mode 0700, made at the first write; files 0600).

    folder:    where the files are
    max_age_s: an entry this old is gone; None keeps every one
    clock:     Unix time in seconds; entries are dated by it
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_age_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = os.fspath(folder)
        self._max_age_s = max_age_s
        self._clock = clock

    def read(self, id: str) -> Chat:
        """The chat of an id.

        raises: FileNotFoundError where there is none or it has expired (its file is then removed),
                InvalidRequest for an id that cannot be one, DecodeError for a damaged file
        """
        path = self._path(id)
        if self._has_expired(path):
            with suppress(FileNotFoundError):  # another reader found it expired first
                os.unlink(path)
            raise FileNotFoundError(errno.ENOENT, f"the chat has expired after {self._max_age_s:g} s", path)
        return Chat.load(path)

    def write(self, id: str, chat: Chat) -> None:
        """Store a chat under an id, replacing an earlier one; its age starts again at 0.

        raises: InvalidRequest for an id that cannot be one or a chat that JSON cannot hold,
                OSError where the folder cannot be written
        """
        path, data = self._path(id), chat.to_json()
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        replace_file(path, data, modified_at_s=self._clock())

    def delete(self, id: str) -> None:
        """Remove the chat of an id.

        raises: FileNotFoundError where there is none, InvalidRequest for an id that cannot be one
        """
        os.unlink(self._path(id))

    def _path(self, id: str) -> str:
        # No dot first: "..", hidden files, and the temporary ones that are written here.
        if not 0 < len(id) <= _MAX_ID_CHARACTERS or id[0] == "." or not _ID_CHARACTERS.issuperset(id):
            raise InvalidRequest(
                f"{id[:40]!r} cannot be the id of a cached chat. Use 1 to {_MAX_ID_CHARACTERS} "
                "ASCII letters, digits, '.', '_' or '-', not starting with '.'."
            )
        return os.path.join(self._folder, f"{id}.json")

    def _has_expired(self, path: str) -> bool:
        if self._max_age_s is None:
            return False
        return self._clock() - os.stat(path).st_mtime >= self._max_age_s
