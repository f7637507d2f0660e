"""What sockets and HTTP can do wrong: rows 1 to 11 and 19."""

from __future__ import annotations

from faultmatrix.asking import BOUND_S, PATIENT, QUICK, QUICK_IDLE, THRICE, Outcome, Script, answered
from faultmatrix.faults import Fault
from faultmatrix.wires import Wire

import llmstream as ls
from llmstream.testing import Do, Flood, Trickle, chunked, head

SHORT_TOTAL = ls.Deadlines(total_s=0.1)
TEXT_GOES_ON = "the finish reason may be in any chunk, and later chunks continue the answer"


def fields(wire: Wire, **more: str) -> dict[str, str]:
    return {"content-type": wire.content_type, **{k.replace("_", "-"): v for k, v in more.items()}}


def sized(wire: Wire, body: bytes, length: int | None = None) -> list[bytes]:
    """An answer with a content-length."""
    return [head(200, fields(wire, content_length=str(len(body) if length is None else length))), body]


def cut(wire: Wire, at: int, end: Do) -> Script:
    return answered(wire, wire.whole[:at], end, end=False)


def in_the_middle(wire: Wire) -> int:
    return len(wire.half) + len(wire.lo) // 2


def ping(wire: Wire) -> bytes:
    """What keeps a connection alive and says nothing: each wire's own, else an empty delta."""
    own = {
        "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n',
        "openai-chat": b": keep-alive\n\n",
        "gemini": b": keep-alive\n\n",
        "ollama": b'{"model": "m", "message": {"role": "assistant", "content": ""}, "done": false}\n',
    }
    said = own.get(wire.name) or wire.text("")
    assert said
    return said


def finishes_at_once(wire: Wire, got: Outcome) -> None:
    """The trailer of a complete answer is waited for a second, the drain for a quarter."""
    assert got.seconds < 2.0


def told_once(wire: Wire, got: Outcome) -> None:
    assert len(got.server.requests) == 1
    assert got.server.connections == 1


LOST = (ls.ConnectionLost, ls.ProtocolError)

FAULTS = [
    # row 1
    *(
        Fault(
            name=f"{end.value} {where}",
            row=1,
            scripts=lambda wire, end=end, place=place: [cut(wire, place(wire), end)],
            error=LOST,
            text=text,
            within_s=BOUND_S,
        )
        for end in (Do.RESET, Do.FIN)
        for where, place, text in (
            ("before the first event", lambda wire: 0, ""),
            ("in the middle of an event", in_the_middle, "Hel"),
            ("after an event", lambda wire: len(wire.half), "Hel"),
        )
    ),
    Fault(
        name="reset before the head",
        row=1,
        scripts=lambda wire: [[Do.RESET]],
        error=ls.ConnectionLost,
        text="",
    ),
    Fault(name="fin before the head", row=1, scripts=lambda wire: [[0.0]], error=ls.ConnectionLost, text=""),
    *(
        Fault(
            name=f"reset {where}, of a body without a length",
            row=1,
            scripts=lambda wire, part=part: [[head(200, fields(wire)), *part(wire), Do.RESET]],
            error=ls.ConnectionLost,
            text=text,
        )
        for where, part, text in (
            ("before the first event", lambda wire: [], ""),
            ("after an event", lambda wire: [wire.half], "Hel"),
        )
    ),
    Fault(
        name="reset before content, then the answer",
        row=1,
        scripts=lambda wire: [[head(200, fields(wire)), Do.RESET], answered(wire, wire.whole)],
        asked=2,
        options={"retry": ls.Retry(max_retries=1, max_wait_s=0.02)},
    ),
    *(
        Fault(
            name=f"{name} before the head",
            row=8,
            scripts=lambda wire, first=first: [[first, *answered(wire, wire.whole)]],
        )
        for name, first in (
            ("100 Continue", b"HTTP/1.1 100 Continue\r\n\r\n"),
            ("103 Early Hints", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"),
        )
    ),
    Fault(
        name="an answer in HTTP/1.0",
        row=8,
        scripts=lambda wire: [
            [b"HTTP/1.0 200 OK\r\ncontent-type: " + wire.content_type.encode() + b"\r\n\r\n", wire.whole]
        ],
    ),
    Fault(
        name="junk after the last chunk",
        row=8,
        scripts=lambda wire: [[*answered(wire, wire.whole), b"junk" * 10]],
    ),
    Fault(
        name="reset in the middle of the head",
        row=1,
        scripts=lambda wire: [[head(200, fields(wire))[:30], Do.RESET]],
        error=LOST,
        text="",
    ),
    Fault(
        name="fin in the middle of the head",
        row=1,
        scripts=lambda wire: [[head(200, fields(wire))[:30]]],
        error=LOST,
        text="",
    ),
    Fault(
        name="reset after the answer, before its last chunk",
        row=1,
        scripts=lambda wire: [answered(wire, wire.whole, Do.RESET, end=False)],
    ),
    # row 2
    Fault(
        name="clean end without a finish",
        row=2,
        scripts=lambda wire: [answered(wire, wire.half)],
        error=ls.IncompleteStream,
        text="Hel",
    ),
    Fault(
        name="clean end without a finish, content-length",
        row=2,
        scripts=lambda wire: [sized(wire, wire.half)],
        error=ls.IncompleteStream,
        text="Hel",
    ),
    Fault(
        name="clean end without a finish, no framing at all",
        row=2,
        scripts=lambda wire: [[head(200, fields(wire)), wire.half]],
        error=ls.IncompleteStream,
        text="Hel",
    ),
    Fault(
        name="clean end inside an event",
        row=2,
        scripts=lambda wire: [answered(wire, wire.half + wire.lo[: len(wire.lo) // 2])],
        error=(ls.IncompleteStream, ls.DecodeError),
        text="Hel",
    ),
    Fault(
        name="clean end after the opening",
        row=2,
        scripts=lambda wire: [answered(wire, wire.opening)],
        error=(ls.IncompleteStream, ls.NotAStream),
        text="",
    ),
    # row 3
    *(
        Fault(
            name=f"silence {where}",
            row=3,
            scripts=lambda wire, script=script: [script(wire)],
            error=ls.DeadlineExceeded,
            reason=reason,
            text=text,
            options={"deadlines": QUICK_IDLE if reason == "idle" else QUICK},
            within_s=2.0,
        )
        for where, script, reason, text in (
            ("before the head", lambda wire: [Do.HANG], "first-event", ""),
            (
                "in the middle of the head",
                lambda wire: [head(200, fields(wire))[:30], Do.HANG],
                "first-event",
                "",
            ),
            ("after the head", lambda wire: answered(wire, Do.HANG), "first-event", ""),
            ("after the opening", lambda wire: answered(wire, wire.opening, Do.HANG), None, ""),
            ("in mid-stream", lambda wire: answered(wire, wire.half, Do.HANG), "idle", "Hel"),
            (
                "in the middle of an event",
                lambda wire: answered(wire, wire.whole[: in_the_middle(wire)], Do.HANG),
                "idle",
                "Hel",
            ),
        )
    ),
    # row 4
    *(
        Fault(
            name=f"heartbeats {where}",
            row=4,
            scripts=lambda wire, script=script: [script(wire)],
            error=ls.DeadlineExceeded,
            text=text,
            options={"deadlines": QUICK if text is None else QUICK_IDLE},
            within_s=2.0,
        )
        for where, script, text in (
            ("before the first content", lambda wire: answered(wire, *[ping(wire), 0.05] * 60), None),
            ("in mid-stream", lambda wire: answered(wire, wire.half, *[ping(wire), 0.05] * 60), "Hel"),
            (
                "of blank lines",
                lambda wire: (
                    answered(wire, wire.half, *[b"\r\n", 0.05] * 60)
                    if wire.framing != "aws"
                    else answered(wire, wire.half, *[wire.frame(b"{}", "initial-response"), 0.05] * 60)
                ),
                "Hel",
            ),
        )
    ),
    # row 5
    *(
        Fault(
            name=f"slow loris, {part}",
            row=5,
            scripts=lambda wire, script=script: [script(wire)],
            error=ls.DeadlineExceeded,
            reason="total",
            options={"deadlines": SHORT_TOTAL},
            within_s=2.0,
        )
        for part, script in (
            ("head", lambda wire: [Trickle(head(200, fields(wire)) * 9)]),
            ("body", lambda wire: [head(200, fields(wire)), Trickle(wire.whole)]),
            (
                "one event after another",
                lambda wire: answered(wire, wire.opening, *[wire.text("x"), 0.05] * 60),
            ),
        )
    ),
    Fault(
        name="slow loris, body of a refusal",
        row=5,
        scripts=lambda wire: [
            [head(500, {"content-type": "application/json", "content-length": "999"}), Trickle(b"{" * 400)]
        ],
        error=(ls.DeadlineExceeded, ls.ServerError),
        options={"deadlines": SHORT_TOTAL},
        within_s=2.0,
    ),
    Fault(
        name="slow loris, body of what is no stream",
        row=5,
        scripts=lambda wire: [
            [head(200, {"content-type": "text/html", "content-length": "999"}), Trickle(b"<" * 400)]
        ],
        error=ls.DeadlineExceeded,
        options={"deadlines": SHORT_TOTAL},
        within_s=2.0,
    ),
    # row 6
    *(
        Fault(
            name=f"chunk header {bad!r}{', with the text' if together else ''}",
            row=6,
            scripts=lambda wire, bad=bad, together=together: [
                [b"".join(answered(wire, wire.half, end=False)) + bad, Do.HANG]  # type: ignore[arg-type]
                if together
                else [*answered(wire, wire.half, end=False), bad, Do.HANG]
            ],
            error=ls.ProtocolError,
            text="Hel",
            within_s=3.0,
        )
        for bad, together in (
            (b"zz\r\nhello\r\n", False),
            (b"zz\r\nhello\r\n", True),
            (b"-1\r\n", False),
            (b"f" * 20 + b"\r\nx\r\n", True),
            (b"\r\n\r\n", False),
            (b"3\r\nabcdef\r\n", False),
        )
    ),
    Fault(
        name="bad chunk header after the answer",
        row=6,
        scripts=lambda wire: [[*answered(wire, wire.whole, end=False), b"zz\r\n", Do.HANG]],
    ),
    Fault(
        name="status line that is none",
        row=6,
        scripts=lambda wire: [[b"HELLO\r\n\r\n", Do.HANG]],
        error=ls.ProtocolError,
        text="",
        within_s=3.0,
    ),
    Fault(
        name="header line that is none",
        row=6,
        scripts=lambda wire: [[b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", Do.HANG]],
        error=ls.ProtocolError,
        text="",
        within_s=3.0,
    ),
    # row 7
    *(
        Fault(
            name=f"answer over, then {what}",
            row=7,
            scripts=lambda wire, after=after: [answered(wire, wire.whole, after(wire), end=False)],
            also=finishes_at_once,
            not_for={"gemini": TEXT_GOES_ON} if what == "a flood of text" else {},
        )
        for what, after in (
            ("the socket stays open", lambda wire: Do.HANG),
            ("a flood of pings", lambda wire: Flood(ping(wire) * 50)),
            ("a flood of text", lambda wire: Flood(wire.text("late") * 50)),
            ("a trickle", lambda wire: Trickle(b"\n" * 999, 0.02)),
        )
    ),
    # row 8
    Fault(
        name="no last chunk",
        row=8,
        scripts=lambda wire: [answered(wire, wire.whole, end=False)],
    ),
    Fault(
        name="content-length too long",
        row=8,
        scripts=lambda wire: [sized(wire, wire.whole, 99999)],
    ),
    # row 9
    *(
        Fault(
            name=f"content-length too short{', in one segment' if together else ''}",
            row=9,
            scripts=lambda wire, together=together: [
                [b"".join(sized(wire, wire.whole, len(wire.half) + 9))]
                if together
                else sized(wire, wire.whole, len(wire.half) + 9)
            ],
            error=(ls.IncompleteStream, ls.ProtocolError),
            text="Hel",
        )
        for together in (True, False)
    ),
    *(
        Fault(
            name=f"content-length and {second[0]} {second[1]}",
            row=9,
            scripts=lambda wire, second=second: [
                [
                    head(200, [*fields(wire).items(), ("content-length", "11"), second]),
                    *chunked(wire.whole),
                ]
            ],
            error=(ls.ProtocolError, ls.IncompleteStream),
        )
        for second in (("transfer-encoding", "chunked"), ("content-length", "12"))
    ),
    *(
        Fault(
            name=f"content-length {length}",
            row=9,
            scripts=lambda wire, length=length: [
                [head(200, fields(wire, content_length=length)), wire.whole, Do.HANG]
            ],
            error=ls.ProtocolError,
            text="",
            within_s=3.0,
        )
        for length in ("-5", "five", "1_0", "0x10")
    ),
    # row 10
    # row 11
    *(
        Fault(
            name=f"413 before the request is read, then {what}",
            row=11,
            scripts=lambda wire, end=end: [
                [Do.UNREAD, head(413, {"content-length": "2", "connection": "close"}), b"{}", *end]
            ],
            error=ls.BadRequest,
            status=413,
            options={"prompt": "x" * 3_000_000},
        )
        for what, end in (("the socket stays", [Do.FIN]), ("it closes", []), ("a reset", [0.05, Do.RESET]))
    ),
    # row 19
    *(
        Fault(
            name=f"redirect {status} to {what}",
            row=19,
            scripts=lambda wire, status=status, target=target: [
                [head(status, {"location": target, "content-length": "0"})],
                answered(wire, wire.whole),
            ],
            error=ls.RedirectRefused,
            text="",
            also=told_once,
            options={"retry": THRICE, "deadlines": PATIENT},
        )
        for status, what, target in (
            (301, "another path", "/elsewhere"),
            (302, "another host", "http://127.0.0.2:1/"),
            (303, "another path", "/elsewhere"),
            (307, "another path", "/elsewhere"),
            (308, "another path", "/elsewhere"),
            (307, "another host", "http://127.0.0.2:1/"),
            (307, "a file", "file:///etc/passwd"),
            (307, "itself", ""),
            (307, "no URL at all", "http://[::1"),
            (308, "a javascript URL", "javascript:alert(1)"),
        )
    ),
    Fault(
        name="redirect without a location",
        row=19,
        scripts=lambda wire: [[head(307, {"content-length": "0"})]],
        error=ls.RedirectRefused,
        text="",
    ),
    Fault(
        name="304",
        row=19,
        scripts=lambda wire: [[head(304, {})]],
        error=(ls.RedirectRefused, ls.NotAStream, ls.ProtocolError),
        text="",
    ),
]
