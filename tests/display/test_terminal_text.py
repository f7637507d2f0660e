"""Escape sequences, controls and bidi marks, whole and cut at every place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.display.terminal_text import TerminalFilter, one_line, safe

CASES = {
    "plain text": ("Hello, world", "Hello, world"),
    "line feeds and tabs stay": ("a\n\tb\n", "a\n\tb\n"),
    "letters of all scripts stay": ("żółć 漢字 עברית العربية 😀", "żółć 漢字 עברית العربية 😀"),
    "joined emoji stay": ("👩‍💻 🏴‍☠️", "👩‍💻 🏴‍☠️"),
    "colour": ("a\x1b[31mred\x1b[0mb", "aredb"),
    "colour of many parts": ("\x1b[38;2;1;2;3mx", "x"),
    "colon parameters": ("\x1b[4:3mx", "x"),
    "private mode": ("\x1b[?1049hx\x1b[?25l", "x"),
    "clear the screen": ("\x1b[2J\x1b[Hx", "x"),
    "cursor up over what stands there": ("safe\x1b[1A\x1b[2Kevil", "safeevil"),
    "ask the terminal to answer": ("\x1b[6n\x1b[c\x1b[>0qx", "x"),
    "intermediates": ("\x1b[0 qx\x1b[!px", "xx"),
    "title": ("\x1b]0;owned\x07x", "x"),
    "title ended by ST": ("\x1b]2;owned\x1b\\x", "x"),
    "clipboard": ("\x1b]52;c;ZXZpbA==\x07x", "x"),
    "clipboard of eight bits": ("\x9d52;c;ZXZpbA==\x9cx", "x"),
    "link keeps its words": ("\x1b]8;;http://evil.example\x1b\\bank\x1b]8;;\x1b\\", "bank"),
    "iterm file": ("\x1b]1337;File=inline=1:AAAA\x07x", "x"),
    "device control": ("\x1bP$qm\x1b\\x", "x"),
    "sixel": ("\x1bPq#0;2;0;0;0#0~~@@\x1b\\x", "x"),
    "kitty image": ("\x1b_Gf=24,s=1;AAAA\x1b\\x", "x"),
    "privacy message": ("\x1b^hidden\x1b\\x", "x"),
    "start of string": ("\x1bXhidden\x1b\\x", "x"),
    "tmux pass through": ("\x1bPtmux;\x1b\x1b]52;c;QQ==\x07\x1b\\x", "x"),
    "csi of eight bits": ("\x9b31mx", "x"),
    "device control of eight bits": ("\x90hidden\x9cx", "x"),
    "application command of eight bits": ("\x9fhidden\x9cx", "x"),
    "other c1": ("a\x84\x88\x8d\x8e\x8fb", "ab"),
    "next line": ("a\x85b", "a\nb"),
    "full reset": ("\x1bcx", "x"),
    "character set": ("\x1b(0x\x1b(Bx", "xx"),
    "keypad and cursor memory": ("\x1b7\x1b8\x1b=\x1b>x", "x"),
    "escape before an escape": ("\x1b\x1b[31mx", "x"),
    "escape before a letter of no sequence": ("\x1béx", "éx"),
    "escape before a line feed": ("a\x1b\nb", "a\nb"),
    "escape at the end": ("a\x1b", "a"),
    "csi at the end": ("a\x1b[31", "a"),
    "csi broken by a line feed": ("\x1b[31\nm", "\nm"),
    "csi broken by another": ("\x1b[3\x1b[31mx", "x"),
    "csi broken by a letter of no ascii": ("\x1b[3éx", "éx"),
    "string that never ends stops with its line": ("a\x1b]0;lost\nkept", "a\nkept"),
    "string cancelled": ("\x1b]0;lost\x18kept\x1bPlost\x1akept", "keptkept"),
    "string broken by a sequence": ("\x1b]0;lost\x1b[31mx", "x"),
    "bell": ("a\x07b", "a␇b"),
    "backspace": ("rm -rf /\x08\x08", "rm -rf /␈␈"),
    "null": ("a\x00b", "a␀b"),
    "shift out": ("a\x0eb\x0f", "a␎b␏"),
    "form feed and vertical tab": ("a\x0cb\x0bc", "a␌b␋c"),
    "delete": ("a\x7fb", "a␡b"),
    "crlf": ("a\r\nb", "a\nb"),
    "carriage return over a line": ("approve\rdeny", "approve\ndeny"),
    "carriage returns": ("a\r\rb\r\n\r", "a\n\nb\n\n"),
    "right-to-left override": ("abc\u202etxt.exe", "abctxt.exe"),
    "embeddings": ("\u202aa\u202bb\u202cc\u202dd", "abcd"),
    "isolates": ("\u2066a\u2067b\u2068c\u2069d", "abcd"),
    "direction marks": ("\u200ea\u200fb\u061cc", "abc"),
    "lone surrogate": ("a\ud800b", "a\ufffdb"),
}


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_only_what_is_harmless_is_shown(text, shown):
    assert safe(text) == shown


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_a_cut_at_any_place_changes_nothing(text, shown):
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            cleaner = TerminalFilter()
            pieces = [text[:first], text[first:second], text[second:]]
            assert "".join(map(cleaner.feed, pieces)) + cleaner.close() == shown


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_single_characters_change_nothing(text, shown):
    cleaner = TerminalFilter()
    assert "".join(map(cleaner.feed, text)) + cleaner.close() == shown


def harmless(text: str) -> bool:
    controls = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\n", "\t"}
    bidi = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    return not (controls | bidi) & set(text)


@given(st.lists(st.text(st.sampled_from("a[]P;m\\0 \n\r\t\x07\x18\x1b\x7f\x85\x90\x9b\x9c\x9d\u202eé"))))
def test_nothing_harmful_passes_at_any_cut(pieces):
    cleaner = TerminalFilter()
    shown = "".join([*map(cleaner.feed, pieces), cleaner.close()])
    assert harmless(shown)
    assert shown == safe("".join(pieces))


@given(st.text())
def test_cleaning_twice_changes_nothing(text):
    assert safe(safe(text)) == safe(text)


def test_filter_is_reusable_after_close():
    cleaner = TerminalFilter()
    cleaner.feed("\x1b]0;")
    cleaner.close()
    assert cleaner.feed("x") == "x"


def test_unfinished_sequence_is_linear_cost():
    cleaner = TerminalFilter()
    cleaner.feed("\x1b]0;")
    for _ in range(20_000):
        assert cleaner.feed("lost") == ""
    assert cleaner.feed("\x07x") == "x"


def test_one_line_hides_nothing():
    assert one_line("a\nb\x1b[31m\u202e\u200b") == "a\\nb\\x1b[31m\\u202e\\u200b"
    assert one_line("żółć 😀 'quoted' \\n") == "żółć 😀 'quoted' \\n"


def test_one_line_is_cut_at_its_limit():
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"
    assert one_line("\n\n\n", 4) == "\\n\\…"
    assert len(one_line("x" * 10_000_000, 10)) == 10
