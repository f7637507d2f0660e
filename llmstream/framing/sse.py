"""Server-sent events: bytes in, complete blocks out, by the rules of WHATWG HTML 9.2.

`feed` reads line by line; CR, LF and CRLF all end a line, also across chunks. `feed_data` returns the same
blocks as bare payloads: a run of blocks (`data: ...`, or `event: ...` above `data: ...`, which is what
providers send) is split with a few calls on all of it, and the rest is read line by line.
"""

from __future__ import annotations

from io import BytesIO
from typing import TypeVar

import msgspec

from llmstream.errors import LimitExceeded, LLMStreamError

__all__ = ["Frame", "SSEDecoder"]


# Runs of server-sent blocks, split at once instead of line by line.
#
# Providers send long runs of `data: ...` blocks, or of `event: NAME` above `data: ...`, in which nearly all
# have one name. One split on "blank line plus the fixed start of such a block" yields their payloads. If no
# line end is left in them, the run had no other line; in the few pieces with one, blocks of another name
# follow. Any other block leaves the run to the line reader.

_CR, _LF = 13, 10


def payloads_of_run(text: bytes, end: int, eol: bytes) -> list[bytes] | None:
    """Returns the payloads of complete blocks; None if one has another shape.

    text: starts a block, is without CR where eol is LF
    end:  where the first unfinished block begins, behind a blank line
    eol:  LF or CRLF
    """
    blank = eol + eol
    head = _common_head(text, end, eol)
    if head is None:
        return None
    pieces = text.split(blank + head)
    payloads: list[bytes] = []
    # The block behind the end may begin like the others.
    unfinished = text.startswith(head, end)
    if unfinished:
        pieces.pop()
    if len(pieces) == 1:
        # One copy: it may be megabytes.
        pieces = [text[len(head) : end - len(blank)]]
    else:
        if not unfinished:
            pieces[-1] = pieces[-1][: end - len(text) - len(blank)]
        if text.startswith(head):
            pieces[0] = pieces[0][len(head) :]
        elif not _read_blocks(pieces.pop(0).split(blank), eol, payloads):
            return None
    # The syntax drops one space after the colon. The split drops none here, so a block with one would keep
    # it.
    if head[-1:] == b":" and any(piece[:1] == b" " for piece in pieces):
        return None
    # Where blocks of another name follow, a piece has line ends. Nearly always only the last one has, and a
    # search of all others together is cheaper than one of each; of a number, as `in` raises an error inside
    # first for anything else (2,000 instructions).
    last = pieces.pop()
    joined = b"".join(pieces)
    if _LF in joined or _CR in joined:
        pieces.append(last)
    else:
        payloads, pieces = payloads + pieces if payloads else pieces, [last]
    for piece in pieces:
        if _LF in piece or _CR in piece:
            piece, *others = piece.split(blank)
            payloads.append(piece)
            if _LF in piece or _CR in piece or not _read_blocks(others, eol, payloads):
                return None
        else:
            payloads.append(piece)
    return payloads


def _common_head(text: bytes, end: int, eol: bytes) -> bytes | None:
    """The text before the payload in the middle block, as in most blocks of a run."""
    blank = eol + eol
    at = text.find(blank, end // 2, end - len(blank)) + len(blank)
    if at < len(blank):
        at = 0
    colon = at + 4
    if text.startswith(b"event:", at):
        colon = text.find(eol, at) + len(eol) + 4
    if not text.startswith(b"data:", colon - 4):
        return None
    head = text[at : colon + 1 + text.startswith(b" ", colon + 1)]
    # A name with half a line end in it.
    return head if head.count(b"\n") + head.count(b"\r") in (0, len(eol)) else None


def _read_blocks(blocks: list[bytes], eol: bytes, payloads: list[bytes]) -> bool:
    """Adds the payloads of blocks with and without a name; False if one has another shape."""
    for block in blocks:
        name, found, payload = block.partition(eol + b"data: ")
        if _LF in payload or _CR in payload or _LF in name or _CR in name:
            return False
        if found and name.startswith(b"event:"):
            payloads.append(payload)
        elif not found and name.startswith(b"data: "):
            payloads.append(name[6:])
        # A comment, which gateways send to keep a connection open.
        elif found or not name.startswith(b":"):
            return False
    return True


def payloads_of_lines(text: bytes, end: int) -> list[bytes] | None:
    """Returns the payloads of blocks that all have a name, or all have none; None if one has another shape.

    Of a few blocks, as at the start and the end of a response, where each has another name: a third of the
    instructions of `payloads_of_run`, which takes less once there are many.

    text: starts a block, is without CR
    end:  where the first unfinished block begins, behind a blank line
    """
    lines = BytesIO(text).readlines(end)
    named = text.startswith(b"event:")
    size = 3 if named else 2
    data = lines[size - 2 :: size]
    # All begin with a text if the first and the last in order do: a test of each takes as long as all else.
    if (
        size * lines[size - 1 :: size].count(b"\n") != len(lines)
        or min(data) < b"data: "
        or max(data) >= b"data:!"
        or (named and (min(names := lines[::3]) < b"event:" or max(names) >= b"event;"))
    ):
        return None
    return [line[6:-1] for line in data]


def _is_begun(text: bytes) -> bool:
    """Whether a text is the start of one block, of the shapes that providers send."""
    return text.startswith(_FIELDS) and _CR not in text and b"\n\n" not in text


_T = TypeVar("_T")

_BOM = b"\xef\xbb\xbf"
_COLON = 0x3A  # starts a comment
_FIELDS = (b"data:", b"event:")
# The longest decimal that int() reads under every allowed interpreter setting (sys.set_int_max_str_digits).
_MAX_RETRY_DIGITS = 640
# Up to this size a chunk is first tried as a single block; larger ones mostly hold many.
_SMALL_CHUNK_BYTES = 2048
# Up to this size a run of blocks is split into its lines.
_FEW_BYTES = 4096

# event name, payload, last event id at dispatch, retry of this block
_Block = tuple[bytes, bytes, str, "int | None"]


class Frame(msgspec.Struct, frozen=True):
    """One dispatched event.

    event: its type; "message" where the block names none
    data:  the data lines joined by LF; bytes that are not UTF-8 appear as U+FFFD
    id:    the last event id at dispatch, which a block without an id inherits
    retry: reconnection time in ms if this block set one, else None
    """

    event: str
    data: str
    id: str
    retry: int | None


class SSEDecoder:
    """Splits a body into events, however its chunks are cut.

    max_bytes:     cap on one line and on the joined data of one block, in bytes
    last_event_id: committed when a block ends, with or without data
    retry:         the last valid reconnection time in ms, or None
    error:         set when a cap is passed. What was complete before it in the same chunk is returned first;
                   then every further call raises it. With nothing before it, it is raised at once.
    pending:       whether part of a block is held; at the end of the body this means that it was cut
    source:        WHATWG HTML, 9.2.5 and 9.2.6
    """

    __slots__ = (
        "_after_cr",
        "_at_start",
        "_block_id",
        "_block_retry",
        "_clean",
        "_data",
        "_event",
        "_in_block",
        "_line",
        "_rest",
        "_small",
        "error",
        "last_event_id",
        "max_bytes",
        "retry",
    )

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        # A chunk of this size is not measured line by line, so it may not be larger than the cap on one line.
        self._small = min(max_bytes, _SMALL_CHUNK_BYTES)
        self.last_event_id = ""
        self.retry: int | None = None
        self.error: LLMStreamError | None = None
        self._line = bytearray()  # the unfinished line, LF-free
        self._rest = b""  # the start of a block behind a run, not read yet; then no other state is held
        self._at_start = True  # a byte order mark may still come
        self._after_cr = False  # the last byte was a CR, so an LF that follows belongs to it
        self._clean = False  # nothing held, nothing expected: a chunk starts a block
        self._data: bytes | bytearray | None = None  # the open block so far
        self._event = b""
        self._block_id: str | None = None
        self._block_retry: int | None = None
        self._in_block = False

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished line or block are held."""
        return self._in_block or bool(self._line) or bool(self._rest)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Splits a chunk; returns the events that it completes.

        chunk:   any slice of the body; may cut a line, a CRLF or a UTF-8 character
        returns: complete events in wire order
        raises:  LimitExceeded past max_bytes
        """
        text = self._admit(chunk)
        if not text:
            return []
        frames = [
            Frame(event.decode("utf-8", "replace") or "message", data.decode("utf-8", "replace"), id_, retry)
            for event, data, id_, retry in self._blocks(text)
        ]
        return self._deliver(frames)

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Splits a chunk; returns the undecoded payloads of the events that it completes.

        Same state and same events as `feed`; the two may be mixed.

        raises: LimitExceeded past max_bytes
        """
        if self._clean and len(chunk) <= self._small and chunk[-1:] == b"\n":
            # The common case, one block that is one chunk: bytes.splitlines knows LF, CR and CRLF only.
            match chunk.splitlines():
                case [line, b""] if line[:6] == b"data: ":
                    return [line[6:]]
                case [name, line, b""] if line[:6] == b"data: " and name[:6] == b"event:":
                    return [line[6:]]
            if _CR not in chunk and chunk[-2:] == b"\n\n":
                few = payloads_of_lines(chunk, len(chunk))
                if few is not None:
                    return few
        text = self._admit(chunk)
        if not text:
            return []
        # A guess for the run: where a body mixes line ends, one is left in a payload, and lines are read one
        # by one.
        eol = b"\r\n" if _CR in text else b"\n"
        payloads: list[bytes] = []
        if self._in_block:
            text = self._finish_block(text, eol, payloads)
        if self.error is None and not self._in_block:
            text = self._take_run(text, eol, payloads)
            # Complete blocks, and no text after them.
            if not text and not self._after_cr:
                self._clean = True
                return payloads
            # To read the start of a block line by line, and then its end, takes as long as twenty blocks.
            if payloads and len(text) <= self._small and _is_begun(text):
                self._rest = text
                return payloads
        if self.error is None:
            payloads += [block[1] for block in self._blocks(text)]
        return self._deliver(payloads)

    def close(self) -> None:
        """Ends the body: an unfinished last block is dropped, as the standard requires.

        Look at `pending` before this to distinguish a truncated body from a complete one.

        raises: the deferred `error`, if there is one
        """
        self._drop()
        if self.error is not None:
            raise self.error

    def _admit(self, chunk: bytes) -> bytes:
        """Returns the held line and this chunk; b"" while no line ends in it. The result starts a line."""
        if self.error is not None:
            raise self.error
        if self._at_start:
            chunk = self._without_bom(chunk)
        if self._rest:
            chunk, self._rest = self._rest + chunk, b""
        if self._after_cr and chunk:
            self._after_cr = False
            # CR and LF of one line end may be in two chunks; the line ended with the CR.
            chunk = chunk.removeprefix(b"\n")
        end = chunk.find(b"\n")
        if _CR in chunk:
            self._after_cr = chunk.endswith(b"\r")
            cr = chunk.find(b"\r")
            end = cr if end < 0 else min(cr, end)
        line = self._line
        if len(line) + (len(chunk) if end < 0 else end) > self.max_bytes:
            # Before the line is held: a body without line ends would fill the memory.
            raise self._fail("a line")
        self._clean = False
        if end < 0:
            line += chunk
            return b""
        if not line:
            return chunk
        self._line = bytearray()
        return b"".join((line, chunk))

    def _without_bom(self, chunk: bytes) -> bytes:
        """Removes a byte order mark at the body's start; a cut mark is held as the first line."""
        chunk = bytes(self._line) + chunk
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._line = bytearray(chunk)
            return b""
        self._line = bytearray()
        self._at_start = False
        return chunk.removeprefix(_BOM)

    def _finish_block(self, text: bytes, eol: bytes, payloads: list[bytes]) -> bytes:
        """Reads up to the end of the open block; the returned rest starts a block."""
        end = 0 if text.startswith(eol) else text.find(eol + eol)
        if end < 0:
            return text
        end += len(eol) if end == 0 else 2 * len(eol)
        payloads += [block[1] for block in self._blocks(text[:end])]
        return text[end:]

    def _take_run(self, text: bytes, eol: bytes, payloads: list[bytes]) -> bytes:
        """Takes complete blocks of the usual shapes from text that starts a block; returns the rest."""
        end = text.rfind(eol + eol)
        # The fast path does not check single lines, so it skips text in which one may be too long.
        if end < 0 or len(text) > self.max_bytes:
            return text
        end += 2 * len(eol)
        run = None
        if end <= _FEW_BYTES and eol == b"\n":
            run = payloads_of_lines(text, end)
        if run is None:
            run = payloads_of_run(text, end, eol)
        if run is None:
            return text
        payloads += run
        return text[end:]

    def _blocks(self, text: bytes) -> list[_Block]:
        """Reads text that starts a line, line by line; returns complete blocks and stores the rest."""
        blocks: list[_Block] = []
        lines = text.splitlines()
        tail = b"" if text.endswith((b"\n", b"\r")) or not lines else lines.pop()
        for line in lines:
            if not line:
                # Floods of blank lines and comments, which compress well, cost no call for each line.
                if self._in_block:
                    self._end_block(blocks)
            elif len(line) > self.max_bytes:
                self._fail("a line")
                return blocks
            elif line[0] != _COLON:
                self._read_field(line)
                if self.error is not None:
                    return blocks
        if len(tail) > self.max_bytes:
            self._fail("a line")
            return blocks
        self._line = bytearray(tail)
        self._clean = not (tail or self._in_block or self._after_cr)
        return blocks

    def _read_field(self, line: bytes) -> None:
        colon = line.find(b":")
        name = line if colon < 0 else line[:colon]
        # One copy: a value may be megabytes.
        value = b"" if colon < 0 else line[colon + 2 if line.startswith(b" ", colon + 1) else colon + 1 :]
        if name == b"data":
            self._in_block = True
            if self._data is None:
                self._data = value
            else:
                self._add_data_line(value)
            return
        if name == b"event":
            self._event = value
        elif name == b"id":
            # source: WHATWG HTML, 9.2.6: an id with NULL is ignored
            if b"\0" in value:
                return
            self._block_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():  # bytes.isdigit: ASCII only
            digits = value.lstrip(b"0")
            if len(digits) > _MAX_RETRY_DIGITS:
                return
            self.retry = self._block_retry = int(digits or b"0")
        else:
            return
        self._in_block = True

    def _add_data_line(self, value: bytes) -> None:
        # A bytearray from the second line on: nearly all blocks have one line.
        data = self._data if isinstance(self._data, bytearray) else bytearray(self._data or b"")
        data += b"\n"
        data += value
        self._data = data
        if len(data) > self.max_bytes:
            self._fail("an event")

    def _end_block(self, blocks: list[_Block]) -> None:
        if self._block_id is not None:
            # Also of a block without data, which dispatches nothing (9.2.6).
            self.last_event_id = self._block_id
        if self._data is not None:
            blocks.append((self._event, bytes(self._data), self.last_event_id, self._block_retry))
        self._reset_block()

    def _reset_block(self) -> None:
        self._data = None
        self._event = b""
        self._block_id = self._block_retry = None
        self._in_block = False

    def _drop(self) -> None:
        self._line = bytearray()
        self._rest = b""
        self._reset_block()
        self._clean = False

    def _fail(self, what: str) -> LLMStreamError:
        """Stores the error of an exceeded limit, and drops the data."""
        self._drop()
        self.error = LimitExceeded(
            f"The event stream holds {what} of more than {self.max_bytes} bytes. "
            "Pass a larger max_bytes if events of this size are expected.",
            reason="limit",
        )
        return self.error

    def _deliver(self, complete: list[_T]) -> list[_T]:
        """Returns the complete events before an error; the error is raised by the next call."""
        if self.error is not None and not complete:
            raise self.error
        return complete
