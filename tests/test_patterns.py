"""Every regular expression of the package takes linear time, whatever the text.

A small backtracking matcher counts the steps that `re` would take. For each quantifier of a pattern it is
given texts that lead there, many times what the quantifier takes, and something that does not fit; twice
the text may not take much more than twice the steps. Patterns are found by reading the source: each call
of `re`, and how a compiled pattern is used in its file.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import llmstream
from llmstream.dialects.errors import vendor_error

PACKAGE = Path(llmstream.__file__).parent
PARSER: Any = re._parser  # type: ignore[attr-defined]
ANCHORED = {"match", "fullmatch"}
SEARCHING = {"search", "sub", "subn", "split", "findall", "finditer"}

_GROWTH = 2.6
_MOST = 20_000

BOUNDED = {
    "dialects/history_parts.py": "looked for in the first 100 characters",
    "middleware/smoothing.py": "matched at one place after the other, in some hundred characters",
}
"""Files whose patterns are not linear where they are searched, and what bounds them."""


class Pattern(NamedTuple):
    """One pattern, and whether it is looked for at every place of the text."""

    where: str
    source: str
    flags: int
    searched: bool


class Steps:
    """Counts, and gives up where there are too many."""

    def __init__(self, most: int) -> None:
        self.count, self.most = 0, most

    def __call__(self) -> None:
        self.count += 1
        if self.count > self.most:
            raise OverflowError


def fits(kind: str, value: Any, char: str, flags: int) -> bool:
    """Whether one character fits one element of a pattern; `re` itself is asked."""
    match kind:
        case "LITERAL":
            return char == chr(value) or bool(flags & re.IGNORECASE and char.lower() == chr(value).lower())
        case "NOT_LITERAL":
            return not fits("LITERAL", value, char, flags)
        case "ANY":
            return bool(flags & re.DOTALL) or char != "\n"
        case "IN":
            negated = str(value[0][0]) == "NEGATE"
            return any(fits(str(k), v, char, flags) for k, v in value[negated:]) != negated
        case "RANGE":
            cases = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
            return any(len(c) == 1 and value[0] <= ord(c) <= value[1] for c in cases)
        case "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            if name.startswith("NOT_"):
                return not fits("CATEGORY", f"CATEGORY_{name[4:]}", char, flags)
            tests: dict[str, Callable[[str], bool]] = {
                "DIGIT": str.isdecimal,
                "SPACE": str.isspace,
                "WORD": lambda c: c.isalnum() or c == "_",
            }
            return tests[name](char)
    raise AssertionError(kind)


SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}


class Matcher:
    """Backtracks as `re` does, with a step for each element tried."""

    def __init__(self, tree: Any, flags: int, steps: Steps) -> None:
        self.items, self.flags, self.step = list(tree), flags, steps

    def at(self, text: str, start: int, *, whole: bool) -> bool:
        ends = self.sequence(self.items, text, start)
        return any(not whole or end == len(text) for end in ends)

    def sequence(self, items: list[Any], text: str, at: int) -> Iterator[int]:
        """Ends of matches of a sequence, without recursion over its length."""
        if not items:
            yield at
            return
        for end in self.one(items[0], text, at):
            yield from self.sequence(items[1:], text, end)

    def one(self, item: Any, text: str, at: int) -> Iterator[int]:
        kind, value = str(item[0]), item[1]
        self.step()
        if kind in SINGLE:
            if at < len(text) and fits(kind, value, text[at], self.flags):
                yield at + 1
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = value
            yield from self.repeat(list(inner), least, most, text, at, greedy=kind != "MIN_REPEAT")
        elif kind == "SUBPATTERN":
            yield from self.sequence(list(value[3]), text, at)
        elif kind == "BRANCH":
            for branch in value[1]:
                yield from self.sequence(list(branch), text, at)
        elif kind in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            start = at if direction > 0 else max(0, at - 1)
            found = any(True for _ in self.sequence(list(inner), text, start))
            if found == (kind == "ASSERT"):
                yield at
        elif kind == "AT":
            name = str(value)
            begins, ends = at == 0, at == len(text)
            word = [
                0 <= i < len(text) and fits("CATEGORY", "CATEGORY_WORD", text[i], 0) for i in (at - 1, at)
            ]
            holds = {
                "AT_BEGINNING": begins,
                "AT_BEGINNING_STRING": begins,
                "AT_END": ends or text[at:] == "\n",
                "AT_END_STRING": ends,
                "AT_BOUNDARY": word[0] != word[1],
            }
            if holds[name]:
                yield at
        else:
            raise AssertionError(kind)

    def repeat(
        self, inner: list[Any], least: int, most: Any, text: str, at: int, *, greedy: bool
    ) -> Iterator[int]:
        """Ends after each number of rounds, the longest first where it is greedy."""
        stack = [(at, 0, self.sequence(inner, text, at))]
        if not greedy and least == 0:
            yield at
        while stack:
            begin, count, ends = stack[-1]
            end = next(ends, None) if count < most else None
            if end is None or (end == begin and count >= least):
                stack.pop()
                if greedy and count >= least:
                    yield begin
            else:
                self.step()
                if not greedy and count + 1 >= least:
                    yield end
                stack.append((end, count + 1, self.sequence(inner, text, end)))


def steps_of(pattern: Pattern, tree: Any, text: str, most: int) -> int:
    """Steps for one text; `re` goes on from place to place where the pattern is searched."""
    steps = Steps(most)
    matcher = Matcher(tree, pattern.flags, steps)
    try:
        for start in range(len(text) + 1 if pattern.searched else 1):
            if matcher.at(text, start, whole=not pattern.searched) and pattern.searched:
                break
    except OverflowError:
        return most
    return steps.count


def sample(items: Any, flags: int) -> str:
    """The shortest text that fits."""
    out = ""
    for item in items:
        kind, value = str(item[0]), item[1]
        if kind in SINGLE:
            out += next((c for c in 'aA0 \n-.:/`[{<(x_"\\' + ALL if fits(kind, value, c, flags)), "")
        elif kind.endswith("REPEAT"):
            out += sample(value[2], flags) * min(value[0], 8)
        elif kind == "SUBPATTERN":
            out += sample(value[3], flags)
        elif kind == "BRANCH":
            out += sample(value[1][0], flags)
    return out


ALL = "".join(map(chr, range(0x20, 0x180)))


def pumps(items: Any, flags: int, before: str = "") -> Iterator[tuple[str, str]]:
    """For each quantifier without a small bound: what leads there, and what may be repeated."""
    for item in items:
        kind, value = str(item[0]), item[1]
        if kind.endswith("REPEAT"):
            _, most, inner = value
            if most > 64:
                for char in {sample(inner, flags), *chars_of(inner, flags)}:
                    yield before, char
                    yield before + sample(inner, flags), char
            yield from pumps(inner, flags, before)
        elif kind == "SUBPATTERN":
            yield from pumps(value[3], flags, before)
        elif kind == "BRANCH":
            for branch in value[1]:
                yield from pumps(branch, flags, before)
        before += sample([item], flags)


def chars_of(items: Any, flags: int) -> Iterator[str]:
    """A few characters of each kind that the first element takes."""
    for item in items:
        if str(item[0]) in SINGLE:
            for char in 'a0 \n\t-.:<`[({"\\/,;~_':
                if fits(str(item[0]), item[1], char, flags):
                    yield char
        elif str(item[0]) == "SUBPATTERN":
            yield from chars_of(item[1][3], flags)


def growth(pattern: Pattern) -> float:
    """By how much the worst text of twice the length takes more steps."""
    tree = PARSER.parse(pattern.source, pattern.flags)
    flags = pattern.flags | tree.state.flags
    worst = 0.0
    for before, pump in set(pumps(tree, flags)):
        if not pump:
            continue
        for after in ("", "\x00", "a"):
            texts = [before + pump * count + after for count in (32, 64)]
            texts += [(before + pump) * count + after for count in (16, 32)]
            for less, more in (texts[:2], texts[2:]):
                few, many = (steps_of(pattern, tree, text, _MOST) for text in (less, more))
                worst = max(worst, 99.0 if many >= _MOST else many / max(few, 200))
                if worst >= _GROWTH:
                    return worst
    return worst


def found_in(path: Path) -> Iterator[Pattern | str]:
    """The patterns of a file; a text for one that cannot be found out."""
    text = path.read_text()
    if not re.search(r"^ *import .*\bre\b", text, re.MULTILINE):
        return
    tree = ast.parse(text)
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    where = str(path.relative_to(PACKAGE))
    module = None
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re") or not node.args:
            continue
        module = module or importlib.import_module(name)
        how, first = node.func.attr, node.args[0]
        if how == "escape":
            continue
        try:
            source = eval(compile(ast.Expression(first), where, "eval"), vars(module))
            spelled = [ast.unparse(argument) for argument in node.args + [k.value for k in node.keywords]]
            flags = sum(getattr(re, a[3:]) for a in spelled if re.fullmatch(r"re\.[A-Z]+", a))
        except Exception:
            yield f"{where}: {ast.unparse(node)}"
            continue
        if how == "compile":
            compiled = [(n, value) for n, value in vars(module).items() if isinstance(value, re.Pattern)]
            names = [n for n, value in compiled if value.pattern == source]
            ways = set().union(*(used.get(n, set()) for n in names)) if names else SEARCHING
            how = "search" if not ways or ways & SEARCHING else "match"
        if isinstance(source, bytes):
            source = source.decode("latin-1")
        yield Pattern(where, source, int(flags), how in SEARCHING)


@functools.cache
def found_in_all() -> list[Pattern | str]:
    """The patterns of the package. Reading it takes seconds: only for the tests that need them."""
    return [found for path in sorted(PACKAGE.rglob("*.py")) for found in found_in(path)]


def searched() -> list[Pattern]:
    """The patterns that have to be linear."""
    found = {found for found in found_in_all() if isinstance(found, Pattern)}
    return sorted(pattern for pattern in found if pattern.where not in BOUNDED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_a_pattern_takes_linear_time:
        patterns = searched()
        metafunc.parametrize("pattern", patterns, ids=[f"{p.where}: {p.source}" for p in patterns])


@pytest.mark.slow
def test_a_pattern_takes_linear_time(pattern: Pattern) -> None:
    assert growth(pattern) < _GROWTH


@pytest.mark.parametrize(
    "source",
    [r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", r"(a+)+b", r"\s+$", r"\d+x", r"(\w+\s?)*:", r"a*a*b", r"<[^>]*>"],
)
def test_the_matcher_knows_slow_patterns(source: str) -> None:
    assert growth(Pattern("", source, re.DOTALL, True)) >= _GROWTH


def test_no_pattern_is_missed() -> None:
    assert len(searched()) > 60
    assert sorted(found for found in found_in_all() if isinstance(found, str)) == sorted(DATA)


DATA = {
    "web/demo.py: re.search(f'\\\\b{word}\\\\b', prompt.lower())": "a table of plain words",
    "cli/errors.py: re.compile(pattern)": "a table with bounds, in one message of ours",
    "cli/replay.py: re.compile(sign, re.DOTALL)": "a table, matched once in the first few KiB",
    "dialects/anthropic/quirks.py: re.search(pattern + '/?$', url.split('?', 1)[0].split('#', 1)[0])": (
        "a path of a table, in the address of a request"
    ),
    "dialects/bedrock_converse/quirks.py: re.compile(pattern)": "a table, in the caller's name of a model",
    "model_rules/__init__.py: re.search(rule.pattern, model, re.IGNORECASE)": "the same",
    "dialects/errors.py: re.fullmatch(numbers, fields.reason or '')": "a table of four digits",
    "endpoint_check/report.py: re.search(f'\\\\b{sent}\\\\b', message)": "one of two names of a field",
    "simulator/demo.py: re.findall(f'({names}) for ([A-Z]\\\\w+)', prompt)": "names of tools",
    "model_rules/__init__.py: re.search(row.models, model, re.IGNORECASE)": "the caller's name of a model",
    "store/postgres.py: re.sub(pattern, replacement, statement)": "a table, in statements of ours",
    "simulator/recording.py: re.compile(b''.join(map(_spellings, secret)))": "a key, byte for byte",
    "simulator/demo.py: re.search(pattern, name.lower())": "a table of plain words",
}
"""Calls whose pattern is data, and what is known of it."""


def test_pages_that_are_errors_are_read_once() -> None:
    """Each of these was quadratic; the body of a refusal has up to 64 KiB."""
    for page in ("<" * 60_000, "<title>" * 9_000, "<title " * 9_000):
        error = vendor_error(502, {}, page.encode(), provider="p")
        assert len(error.message) < 4_000
