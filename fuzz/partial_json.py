"""PartialJSON: it knows JSON from what is none, and takes nothing back."""

from __future__ import annotations

import copy
import json

import msgspec

from fuzz.inputs import read
from llmstream.errors import LimitExceeded
from llmstream.partial_json import PartialJSON

LOOKING = 1  # mode: the value is looked at between the pieces
SHALLOW = 2  # mode: a small cap on depth


def partial_json(data: bytes) -> None:
    """The same value and state whole and in pieces; complete exactly where it is JSON, and equal then."""
    given = read(data)
    text = given.body.decode("utf-8", "replace")
    depth = 3 if given.mode & SHALLOW else 128
    whole, cut = PartialJSON(max_depth=depth), PartialJSON(max_depth=depth)
    _feed(whole, text)
    for piece in _pieces(text, given.cuts):
        before = copy.deepcopy(cut.value) if given.mode & LOOKING else None
        _feed(cut, piece)
        assert before is None or _grown(before, cut.value), (before, cut.value)
    assert cut.state == whole.state
    assert _same(cut.value, whole.value)
    if isinstance(whole.error, LimitExceeded):
        return
    if whole.state == "complete":
        assert _same(json.loads(text), whole.value)
    elif _is_json(text):
        raise AssertionError(f"{text!r} is JSON, and said to be {whole.state}")
    if whole.state == "invalid":
        assert not _can_be_completed(text)


def _feed(parser: PartialJSON, text: str) -> None:
    try:
        parser.feed(text)
    except LimitExceeded:
        assert parser.error is not None


def _pieces(text: str, cuts: tuple[int, int]) -> tuple[str, str, str]:
    first, second = sorted(len(text) * cut // 255 for cut in cuts)
    return text[:first], text[first:second], text[second:]


def _grown(before: object, now: object) -> bool:
    """Whether nothing was taken back; values of objects may be replaced, by a key that comes again."""
    match before, now:
        case str(), str():
            return now.startswith(before)
        case dict(), dict():
            return before.keys() <= now.keys()
        case list(), list():
            return len(before) <= len(now) and all(map(_grown, before, now))
        case bool() | None, _:
            return before is now
        case _:
            return type(now) in (int, float)


def _same(one: object, other: object) -> bool:
    return one == other or repr(one) == repr(other)


def _is_json(text: str) -> bool:
    """As msgspec has it, which knows neither NaN nor lone surrogates nor numbers past a double."""
    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _can_be_completed(text: str) -> bool:
    """Whether a few simple endings make it JSON: a sample, where no ending may."""
    return any(_is_json(text + ending) for ending in ("", '"', "}", "]", '"}', '"]', "0", '":0}', "1}", "}]"))
