"""Sampled stacks to layers: which part of the work a sample belongs to.

A stack is read from its innermost frame outwards; the first frame with a layer decides. What belongs
to none, such as the standard library, counts for its caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LAYERS = {
    "request": "options, messages and address to an HTTP request; retries and deadlines of a call",
    "http": "aiohttp and our transport: the request written, the response's head and chunks",
    "framing": "bytes to payloads: SSE, lines, AWS messages",
    "json": "msgspec, which decodes a payload into its typed form, or writes a request",
    "events": "wire values to events, one dialect",
    "grammar": "the check that the events are a valid sequence",
    "fold": "events to a message",
    "stream": "batches of events to their reader",
    "agent": "the loop of model and tools",
    "loop": "asyncio: callbacks, timers, tasks",
    "kernel": "system calls: read, write, epoll",
    "gc": "the garbage collector's rounds",
    "reader": "the program that reads the stream",
}
"""What the layers are, in the order of the table."""

# By path; the first that fits counts, so that what is special stands first.
_PATHS = (
    ("llmstream/framing/", "framing"),
    ("llmstream/partial_json", "fold"),
    ("llmstream/grammar", "grammar"),
    ("llmstream/dialects/guarded_decoder", "grammar"),
    ("llmstream/accumulate/", "fold"),
    ("llmstream/structured/", "fold"),
    ("llmstream/agent/", "agent"),
    ("llmstream/middleware/", "agent"),
    ("llmstream/tools/", "agent"),
    ("llmstream/streams/answer", "stream"),
    ("llmstream/streams/http_call", "stream"),
    ("llmstream/streams/event_stream", "stream"),
    ("llmstream/streams/reading", "stream"),
    ("llmstream/transport/deadlines", "stream"),
    ("llmstream/transport/", "http"),
    ("llmstream/", "request"),
    ("aiohttp/", "http"),
    ("yarl/", "http"),
    ("multidict/", "http"),
    ("aiosignal/", "http"),
    ("asyncio/", "loop"),
    ("selectors.py", "loop"),
    ("uvloop/", "loop"),
    ("benchmarks/", "reader"),
)
# Modules of a dialect that read its answers; the others write its requests.
_READING = frozenset(
    "decoder blocks tool_calls wire wire_values parts calls partial_args attachments prose_items call_items "
    "unique_ids payload_size".split()
)
# Functions of the way to the response's head, in modules of the way from there.
_REQUESTING = frozenset(
    "HTTPCall.__init__ HTTPCall._open HTTPCall._attempt HTTPCall._request HTTPCall._prepared "
    "HTTPCall._prepared_and_sent HTTPCall._sent EventStream.__init__".split()
)
_SYSTEM_CALLS = frozenset(
    "send recv sendto recvfrom sendmsg recvmsg read write writev readv epoll_wait epoll_ctl poll connect "
    "accept accept4 socket close shutdown setsockopt getsockopt getsockname fcntl ioctl".split()
)


class Frame(NamedTuple):
    """A function, and its file or its shared library."""

    function: str
    path: str

    def __str__(self) -> str:
        return f"{self.function} ({self.path})" if self.path else self.function


class Sample(NamedTuple):
    """One stack, outermost frame first, and how often it was met."""

    stack: tuple[Frame, ...]
    count: int


def samples(folded: Iterable[str], below: str) -> Iterator[Sample]:
    """Reads py-spy's raw format: "outer (a.py:1);inner (b.py:2) 12", without line numbers.

    below: only stacks with this function in them, and of these only what it calls
    """
    found: Counter[tuple[Frame, ...]] = Counter()
    for line in folded:
        text, _, count = line.rstrip().rpartition(" ")
        frames = [_frame(each) for each in text.split(";")]
        names = [frame.function.rpartition(".")[2] for frame in frames]
        if below in names:
            stack = tuple(frame for frame in frames[names.index(below) + 1 :] if _telling(frame))
            found[stack] += int(count)
    for stack, times in found.items():
        yield Sample(stack, times)


def layer_of(stack: tuple[Frame, ...]) -> str:
    """The layer of a stack, by its innermost frame that has one."""
    if stack and _library(stack[-1]) and stack[-1].function.strip("_") in _SYSTEM_CALLS:
        return "kernel"
    for frame in reversed(stack):
        if layer := _layer(frame):
            return layer
    return "loop"


def shares(found: Iterable[Sample]) -> dict[str, float]:
    """Each layer's share of all samples, the layers without one included."""
    counts: Counter[str] = Counter()
    for sample in found:
        counts[layer_of(sample.stack)] += sample.count
    total = counts.total() or 1
    return {layer: counts[layer] / total for layer in LAYERS}


def _frame(text: str) -> Frame:
    function, _, place = text.partition(" (")
    path, colon, number = place.rstrip(")").rpartition(":")
    path = path if colon and number.isdigit() else place.rstrip(")")
    # An installed package has its name from site-packages on, a module of ours from the checkout on.
    for mark in ("site-packages/", "/llmstream/", "/benchmarks/"):
        before, found, after = path.rpartition(mark)
        if found and before:
            path = after if mark == "site-packages/" else mark[1:] + after
            break
    return Frame(function, path)


def _library(frame: Frame) -> bool:
    """Whether this is native code of a shared library; msgspec's carries its sources' names."""
    return ".so" in frame.path or frame.path.endswith((".c", ".h", ".pyx")) or not frame.path


def _telling(frame: Frame) -> bool:
    """Whether a reader of the stack learns something: not the interpreter's own C functions."""
    if not _library(frame):
        return True
    inside = ".so" in frame.path and "libpython" not in frame.path and not frame.function.startswith("0x")
    return inside or frame.function.startswith("gc_collect")


def _layer(frame: Frame) -> str:
    function, path = frame
    if _library(frame):
        if function.startswith("gc_collect"):
            return "gc"
        if "msgspec" in path and function.lower().startswith(("json", "mpack")):
            return "json"
        return "http" if "aiohttp" in path or "yarl" in path or "multidict" in path else ""
    if function in _REQUESTING:
        return "request"
    if path.startswith("llmstream/dialects/") and path.rpartition("/")[2].removesuffix(".py") in _READING:
        return "events"
    return next((layer for start, layer in _PATHS if path.startswith(start)), "")
