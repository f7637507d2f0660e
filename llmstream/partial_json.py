"""JSON that is still streaming: a push parser whose value can be read after every fragment.

It follows RFC 8259 strictly and reads no character twice. Of an unfinished text it shows: strings as far as
received, without a cut escape or half a surrogate pair; a key once its value has started; of a cut number
the longest valid prefix; true, false and null only when complete. Shown values are never retracted, except
that a repeated key replaces its value.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Final, Literal

from llmstream.errors import DecodeError, LimitExceeded, LLMStreamError

__all__ = ["MAX_DEPTH", "MAX_NUMBER_CHARS", "PartialJSON", "State"]

# Deeper than any real schema. msgspec and `json` refuse only at thousands of levels, and readers of the value
# also recurse.
MAX_DEPTH = 128
# Fragments of an open string are joined at this count, so that memory is proportional to the text.
_MAX_PARTS = 4096

# What the next character belongs to. The order matters: up to _END between tokens, from _STRING on in one.
_VALUE: Final = 0
_FIRST_ITEM: Final = 1
_FIRST_KEY: Final = 2
_KEY: Final = 3
_COLON: Final = 4
_AFTER_ITEM: Final = 5
_AFTER_MEMBER: Final = 6
_END: Final = 7
_BROKEN: Final = 8
_STRING: Final = 9
_ESCAPE: Final = 10
_NUMBER: Final = 11
_LITERAL: Final = 12
# The effect of each bracket.
_OPEN_OBJECT: Final = 13
_OPEN_ARRAY: Final = 14
_CLOSE: Final = 15

_VALUE_BEGINNINGS: Final = {
    '"': _STRING,
    "{": _OPEN_OBJECT,
    "[": _OPEN_ARRAY,
    **dict.fromkeys("-0123456789", _NUMBER),
    **dict.fromkeys("tfn", _LITERAL),
}

# Transitions by mode, for characters between tokens.
_STEPS: Final[tuple[dict[str, int], ...]] = tuple(
    dict.fromkeys(" \t\n\r", mode) | steps
    for mode, steps in (
        (_VALUE, _VALUE_BEGINNINGS),
        (_FIRST_ITEM, _VALUE_BEGINNINGS | {"]": _CLOSE}),
        (_FIRST_KEY, {'"': _STRING, "}": _CLOSE}),
        (_KEY, {'"': _STRING}),
        (_COLON, {":": _VALUE}),
        (_AFTER_ITEM, {",": _VALUE, "]": _CLOSE}),
        (_AFTER_MEMBER, {",": _KEY, "}": _CLOSE}),
        (_END, {}),
    )
)

_EXPECTED = {
    _VALUE: "a value",
    _FIRST_ITEM: "a value or ]",
    _FIRST_KEY: "a key in double quotes or }",
    _KEY: "a key in double quotes",
    _COLON: "a colon",
    _AFTER_ITEM: "a comma or the end of the array or object",
    _AFTER_MEMBER: "a comma or the end of the array or object",
    _END: "nothing after the value",
    _STRING: "no raw control character or lone surrogate in a string",
    _ESCAPE: "an escape sequence of a valid character",
    _NUMBER: "a number",
    _LITERAL: "true, false or null",
}

# In a string: the quote, the backslash, control characters, and surrogates, which UTF-8 cannot hold.
_SPECIAL = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_LITERALS: dict[str, tuple[str, bool | None]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_SIMPLE_ESCAPES = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_HEX = "0123456789abcdefABCDEF"
# The characters allowed at each place of an escape after its backslash; from the sixth on, the low half.
_ESCAPE_PLACES = ('"\\/bfnrtu', _HEX, _HEX, _HEX, _HEX, "\\", "u", "dD", "cdefCDEF", _HEX, _HEX)

# \uDC00 to \uDFFF are low halves, which cannot come first.
_AFTER_D = "0123456789abAB"

# Default limit of CPython's int(); reading longer ones takes quadratic time.
MAX_NUMBER_CHARS = 4300
# The lowest value that sys.set_int_max_str_digits takes; shorter numbers are always readable.
_SAFE_NUMBER_CHARS = 640

_NOT_NUMBER = re.compile(r"[^-+.0-9eE]")
_NUMBER_PREFIX = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE][-+]?[0-9]*)?)?|[eE][-+]?[0-9]*)?)?")
_COMPLETE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"-?[0-9]+")
_GROWING_EXPONENT = re.compile(r"[eE]\+?[0-9]")

State = Literal["complete", "partial", "none", "invalid"]


class PartialJSON:
    """Parse one JSON value from fragments.

    max_depth: how many arrays and objects may be open inside one another
    repeated_keys: how many keys of objects were repeated, so that the latest value is not the last member
    error:     what made the text invalid, or None. A DecodeError (text that is not JSON) is only recorded,
               since a display continues to show the earlier value; a LimitExceeded (too deep, or a number of
               more than 4300 characters) is also raised by this and every later `feed`.
    """

    __slots__ = (
        "_after", "_box", "_escape", "_in_key", "_key", "_mode", "_offset", "_outer", "_parts", "_placed",
        "_root", "_text", "_token", "error", "max_depth", "repeated_keys",
    )  # fmt: skip

    def __init__(self, *, max_depth: int = MAX_DEPTH) -> None:
        self.max_depth = max_depth
        self.error: LLMStreamError | None = None
        self.repeated_keys = 0
        self._mode: int = _VALUE
        self._after: int = _END  # the mode once the current value ends
        self._offset = 0  # characters before the current fragment
        self._root: Any = None
        self._box: dict[str, Any] | list[Any] | None = None  # the innermost open container
        self._outer: list[dict[str, Any] | list[Any] | None] = []  # the open ones around it
        self._key = ""  # where the next value of an object goes
        self._placed = False  # the open string or number already has its place in the container
        self._in_key = False  # the open string is a key
        self._text = ""  # the open string as last shown
        self._parts: list[str] = []  # text added since
        self._escape = ""  # an incomplete escape, without its backslash
        self._token = ""  # the open number or literal

    @property
    def value(self) -> Any:
        """The value so far; None also while there is nothing to show (see `state`).

        Arrays and objects are the parser's own and continue to grow: copy what you store, change nothing.
        """
        if self._mode >= _STRING:
            self._show_token()
        return self._root

    @property
    def complete(self) -> bool:
        """Whether the text is one complete JSON value. A number at the root is, though it may still grow."""
        if self._mode != _NUMBER or self._box is not None:
            return self._mode == _END
        return _is_number(self._token) and not _overflows(_number(self._token))

    @property
    def growing(self) -> bool:
        """Whether the value shown last is a string or number that may still change."""
        return self._mode >= _STRING and self._placed

    def growing_key(self, container: dict[str, Any]) -> str | None:
        """The key in an object of the string or number that may still change; None where it is in another."""
        return self._key if self.growing and container is self._box else None

    def is_open(self, container: dict[str, Any] | list[Any]) -> bool:
        """Whether an array or object of the value may still grow."""
        return container is self._box or any(container is outer for outer in self._outer)

    @property
    def state(self) -> State:
        """Complete; partial: something to show; none: nothing yet; invalid: no continuation is JSON."""
        if self.error is not None:
            return "invalid"
        if self.complete:
            return "complete"
        if self._box is not None or self._mode in (_STRING, _ESCAPE):
            return "partial"
        return "partial" if self._mode == _NUMBER and _shown_number(self._token) is not None else "none"

    def feed(self, fragment: str) -> None:
        """Reads the next fragment, cut anywhere, also inside an escape or a number.

        raises: LimitExceeded for text nested deeper than max_depth or a number that is too long
        """
        mode = self._mode
        # Text of an open string alone: one search in C, and no loop.
        if mode == _STRING and _SPECIAL.search(fragment) is None:
            self._parts.append(fragment)
            self._offset += len(fragment)
            # Joined periodically: many small pieces take much more memory than their text.
            if len(self._parts) > _MAX_PARTS and not self._in_key:
                self._show_string()
            return
        if mode == _BROKEN:
            if isinstance(self.error, LimitExceeded):
                raise self.error
            return
        try:
            self._read(fragment)
        except LLMStreamError as error:
            # The value before the error stays visible.
            self._show_token()
            self.error = error
            self._mode = _BROKEN
            if isinstance(error, LimitExceeded):
                raise
        self._offset += len(fragment)

    def _read(self, fragment: str) -> None:
        at = 0
        while at < len(fragment):
            mode = self._mode
            if mode < _BROKEN:
                at = self._read_structure(fragment, at)
            elif mode == _STRING:
                at = self._read_string(fragment, at)
            elif mode == _ESCAPE:
                at = self._read_escape(fragment, at)
            elif mode == _NUMBER:
                at = self._read_number(fragment, at)
            else:
                at = self._read_literal(fragment, at)

    def _read_structure(self, fragment: str, at: int) -> int:
        """Reads separators and complete strings; returns the position of any other token."""
        mode = self._mode
        while at < len(fragment):
            step = _STEPS[mode].get(fragment[at])
            if step is None:
                self._mode = mode
                raise self._unexpected(fragment, at)
            if step <= _END:
                mode = step
            elif step == _STRING:
                in_key = mode in (_KEY, _FIRST_KEY)
                found = _SPECIAL.search(fragment, at + 1)
                if found is None or found[0] != '"':
                    self._mode, self._in_key = _STRING, in_key
                    return at + 1
                text = fragment[at + 1 : found.start()]
                at = found.start()
                if in_key:
                    self._key = text
                    mode = _COLON
                else:
                    self._put(text)
                    self._placed = False
                    mode = self._after
            elif step < _OPEN_OBJECT:
                self._mode = step
                return at
            else:
                mode = self._step_over_bracket(step)
            at += 1
        self._mode = mode
        return at

    def _step_over_bracket(self, step: int) -> int:
        """Opens or closes an array or object; returns the mode behind the bracket."""
        if step == _OPEN_OBJECT:
            self._open_box({}, _AFTER_MEMBER)
            return _FIRST_KEY
        if step == _OPEN_ARRAY:
            self._open_box([], _AFTER_ITEM)
            return _FIRST_ITEM
        self._box = box = self._outer.pop()
        self._after = _END if box is None else _AFTER_MEMBER if isinstance(box, dict) else _AFTER_ITEM
        return self._after

    def _read_string(self, fragment: str, at: int) -> int:
        parts = self._parts
        while found := _SPECIAL.search(fragment, at):
            end = found.start()
            char = fragment[end]
            if char == '"':
                self._end_string(fragment[at:end])
                return end + 1
            if end > at:
                parts.append(fragment[at:end])
            if char != "\\":
                raise self._unexpected(fragment, end)
            # An incomplete escape is too short to be valid.
            plain = _SIMPLE_ESCAPES.get(fragment[end + 1 : end + 2])
            if plain is None:
                self._mode = _ESCAPE
                return end + 1
            parts.append(plain)
            at = end + 2
        if at < len(fragment):
            parts.append(fragment[at:])
        return len(fragment)

    def _end_string(self, rest: str) -> None:
        """Ends a string: `rest` is its text before the closing quote."""
        if self._in_key:
            self._parts.append(rest)
            self._key = "".join(self._parts)
            self._parts.clear()
            self._in_key = False
            self._mode = _COLON
            return
        if self._placed or self._parts:
            self._parts.append(rest)
            self._show_string()
            self._text = ""
        else:
            self._put(rest)
        self._end_value()

    def _read_escape(self, fragment: str, at: int) -> int:
        escape = self._escape
        for index in range(at, len(fragment)):
            char, place = fragment[index], len(escape)
            allowed = _AFTER_D if place == 2 and escape[1] in "dD" else _ESCAPE_PLACES[place]
            if char not in allowed:
                raise self._unexpected(fragment, index)
            escape += char
            plain = _unescaped(escape)
            if plain is not None:
                self._parts.append(plain)
                self._escape = ""
                self._mode = _STRING
                return index + 1
        self._escape = escape
        return len(fragment)

    def _read_number(self, fragment: str, at: int) -> int:
        end = _end_of_number(fragment, at)
        token = self._token + fragment[at:end]
        valid = _valid_chars(token)
        _check_length(token[:valid])
        self._token = token[:valid]  # shown even before a fault, as when it arrives alone
        if valid < len(token):
            raise self._unexpected(fragment, end - (len(token) - valid))
        ended = end < len(fragment)
        if ended and not _is_number(token):
            raise self._unexpected(fragment, end)
        # Checked early where no further digit can help, so that an endless number fails at once.
        if ended or _only_grows(token):
            number = _number(token)
            if _overflows(number):
                raise self._fault(at, f"the number {token[:40]} is too large for a double")
            if ended:
                self._put(number)
                self._token = ""
                self._end_value()
        return end

    def _read_literal(self, fragment: str, at: int) -> int:
        token = self._token
        word, value = _LITERALS[token[:1] or fragment[at]]
        for char in word[len(token) :]:
            if at == len(fragment):
                break
            if fragment[at] != char:
                raise self._unexpected(fragment, at)
            token += char
            at += 1
        if len(token) < len(word):
            self._token = token
        else:
            self._put(value)
            self._token = ""
            self._end_value()
        return at

    def _open_box(self, box: dict[str, Any] | list[Any], after: int) -> None:
        # _outer holds None below the root container, so its length is the depth.
        if len(self._outer) >= self.max_depth:
            raise LimitExceeded(
                f"The JSON text nests arrays and objects deeper than {self.max_depth}. "
                "Pass a larger max_depth if this is expected.",
                reason="limit",
            )
        self._put(box)
        self._placed = False
        self._outer.append(self._box)
        self._box, self._after = box, after

    def _end_value(self) -> None:
        self._placed = False
        self._mode = self._after

    def _put(self, value: Any) -> None:
        """Stores the current value at its place, or replaces its earlier state there."""
        box = self._box
        if box is None:
            self._root = value
        elif isinstance(box, dict):
            if not self._placed and self._key in box:
                self.repeated_keys += 1
            box[self._key] = value
        elif self._placed:
            box[-1] = value
        else:
            box.append(value)
        self._placed = True

    def _show_token(self) -> None:
        """Updates the value with the open token so far."""
        if self._mode == _NUMBER:
            number = _shown_number(self._token)
            if number is not None:
                self._put(number)
        elif self._mode in (_STRING, _ESCAPE) and not self._in_key and (self._parts or not self._placed):
            self._show_string()

    def _show_string(self) -> None:
        if self._placed:
            # With no reference left but ours, CPython extends the string in place instead of copying it.
            self._put(None)
        text = self._text
        self._text = ""
        text += "".join(self._parts)
        self._parts.clear()
        self._text = text
        self._put(text)

    def _unexpected(self, fragment: str, at: int) -> DecodeError:
        return self._fault(at, f"expected {_EXPECTED[self._mode]}, found {fragment[at]!a}")

    def _fault(self, at: int, what: str) -> DecodeError:
        return DecodeError(f"The text is not JSON at character {self._offset + at}: {what}.", reason="json")


def _unescaped(escape: str) -> str | None:
    """Returns the character of an escape (without its backslash), or None while it is incomplete."""
    if len(escape) == 1:
        return _SIMPLE_ESCAPES.get(escape)
    if len(escape) == 5:
        unit = int(escape[1:], 16)
        # The first half of a pair waits for the second.
        return None if 0xD800 <= unit < 0xDC00 else chr(unit)
    if len(escape) == 11:
        return chr(0x10000 + ((int(escape[1:5], 16) - 0xD800) << 10) + int(escape[7:], 16) - 0xDC00)
    return None


def _end_of_number(text: str, at: int) -> int:
    """Returns where the characters that occur in numbers end."""
    found = _NOT_NUMBER.search(text, at)
    return found.start() if found else len(text)


def _valid_chars(token: str) -> int:
    """Returns how many leading characters can begin a number."""
    found = _NUMBER_PREFIX.match(token)
    return found.end() if found else 0


def _is_number(token: str) -> bool:
    """Whether the token is a complete number."""
    return _COMPLETE_NUMBER.fullmatch(token) is not None


def _only_grows(token: str) -> bool:
    """Whether further digits can only make it larger: a number past the range of a double stays invalid."""
    return _GROWING_EXPONENT.search(token) is not None


def _number(token: str) -> int | float:
    """Returns the value of a number: an int if it has neither fraction nor exponent; may be infinite."""
    return int(token) if token.lstrip("-").isdigit() else float(token)


def _overflows(value: int | float) -> bool:
    """Whether a double cannot hold the value; integers have no such limit."""
    return isinstance(value, float) and math.isinf(value)


def _shown_number(token: str) -> int | float | None:
    """Returns the value of the longest prefix that is a finite number, or None."""
    found = _COMPLETE_NUMBER.match(token)
    if found is None:
        return None
    value = _number(found[0])
    # More digits than a double has, and maybe a negative exponent to come.
    if _overflows(value):
        integer = _INTEGER.match(token)
        return int(integer[0]) if integer else None
    return value


def _check_length(token: str) -> None:
    """Rejects a number that takes too long to read.

    raises: LimitExceeded past 4300 characters, or fewer by sys.set_int_max_str_digits
    """
    if len(token) <= _SAFE_NUMBER_CHARS:
        return
    limit = min(sys.get_int_max_str_digits() or MAX_NUMBER_CHARS, MAX_NUMBER_CHARS)
    if len(token) > limit:
        raise LimitExceeded(
            f"The JSON text contains a number of more than {limit} characters. Request it as a string.",
            reason="limit",
        )
