"""Files inside a URL."""

from __future__ import annotations

import pytest

from llmstream.dialects.media import data_uri, read_data_uri


def test_file_survives_a_round_trip():
    assert data_uri(b"\x00\xff", "image/png") == "data:image/png;base64,AP8="
    assert read_data_uri("data:image/png;base64,AP8=") == ("image/png", b"\x00\xff")


def test_another_url_is_none():
    assert read_data_uri("https://x.example/data:,") is None


def test_a_type_that_is_not_said_is_empty():
    assert read_data_uri("data:;base64,AP8=") == ("", b"\x00\xff")


def test_non_base64_content_is_refused():
    with pytest.raises(ValueError, match="not base64"):
        read_data_uri("data:text/plain,hello there")
