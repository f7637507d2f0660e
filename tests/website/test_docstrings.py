from __future__ import annotations

from website.docstrings import read

TEXT = """Reads a file.

    More about it, in two
    lines.

    path, other: where it is,
                 on two lines
    limit_s:     how long. Default: the model's, else `Deadlines()`.
    raises:      OSError if it is missing

    A last word.
    """


def test_prose_and_items_are_told_apart() -> None:
    doc = read(TEXT)
    assert doc.summary == "Reads a file."
    assert doc.prose == ("More about it, in two\nlines.", "A last word.")
    assert list(doc.items) == ["path", "other", "limit_s", "raises"]


def test_two_names_share_a_description() -> None:
    doc = read(TEXT)
    assert doc.items["path"] == doc.items["other"] == "where it is, on two lines"


def test_the_default_is_the_last_words() -> None:
    assert read(TEXT).default("limit_s") == ("how long.", "the model's, else `Deadlines()`")
    assert read(TEXT).default("path") == ("where it is, on two lines", "")


def test_a_paragraph_with_a_colon_is_prose() -> None:
    doc = read("Two forms: one.\nAnd the other.")
    assert doc.summary == "Two forms: one.\nAnd the other."
    assert not doc.items


def test_no_docstring_is_empty() -> None:
    assert read(None) == read("") == ("", (), {})
