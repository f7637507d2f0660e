"""Pages and documents, each once."""

from __future__ import annotations

import itertools

from llmstream.dialects.google import Sources, document_uri
from llmstream.events import Source


def sources():
    numbers = itertools.count(1)
    return Sources(lambda: f"s{next(numbers)}")


def test_page_comes_once_and_needs_a_url():
    found = sources()
    assert list(found.page("https://a.example", "A")) == [Source("url", "s1", "https://a.example", "A")]
    assert [*found.page("https://a.example", "B"), *found.page(""), *found.page(None), *found.page(5)] == []


def test_document_by_path_keeps_the_path():
    (source,) = sources().document("gs://b/tides.pdf", "Tides")
    assert (source.filename, source.media_type, source.title) == ("tides.pdf", "application/pdf", "Tides")
    assert document_uri(source) == "gs://b/tides.pdf"


def test_a_document_by_its_name():
    (source,) = sources().document("stores/s1/")
    assert (source.filename, source.media_type) == ("s1", "application/octet-stream")
    assert document_uri(Source("document", "x", title="T")) == "T"


def test_document_at_a_web_address_is_a_page():
    (source,) = sources().document("https://a.example/b.pdf", "B")
    assert (source.source_type, source.url) == ("url", "https://a.example/b.pdf")


def test_same_path_other_title_is_two():
    found = sources()
    assert (
        len(
            [
                *found.document("gs://b/c", "A"),
                *found.document("gs://b/c", "B"),
                *found.document("gs://b/c", "A"),
            ]
        )
        == 2
    )
