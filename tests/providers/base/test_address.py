from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import InvalidRequest
from llmstream.providers.base import (
    checked_address,
    extended,
    is_local,
    path_segment,
    split_address,
    versioned,
    versioned_host,
    without_version,
)


@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("gpt-5", "gpt-5"),
        ("../secrets", "..%2Fsecrets"),
        ("%2e%2e", "%252e%252e"),
        ("a?api-key=1", "a%3Fapi-key%3D1"),
        ("a#b", "a%23b"),
        ("//host/x", "%2F%2Fhost%2Fx"),
        ("a\\b", "a%5Cb"),
        ("a b\r\nc", "a%20b%0D%0Ac"),
        ("modèle", "mod%C3%A8le"),
    ],
)
def test_a_segment_cannot_lead_elsewhere(text: str, segment: str) -> None:
    assert path_segment(text) == segment


@pytest.mark.parametrize("text", ["", ".", "..", "\ud800"])
def test_what_cannot_be_a_segment_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be part of an address"):
        path_segment(text)


@given(st.text())
def test_any_segment_stays_one_segment(text: str) -> None:
    try:
        segment = path_segment(text)
    except InvalidRequest:
        return
    parts = urlsplit(f"https://host.example/a/{segment}/b?c#d")
    assert parts.hostname == "host.example"
    assert parts.path.split("/") == ["", "a", segment, "b"]
    assert (parts.query, parts.fragment) == ("c", "d")


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.example/v1", "/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1/", "/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1?k=1", "/x", "https://a.example/v1/x?k=1"),
        ("https://a.example/v1?k=1", "/x?alt=sse", "https://a.example/v1/x?alt=sse&k=1"),
        (
            "https://a.example/v1/chat/completions",
            "/chat/completions",
            "https://a.example/v1/chat/completions",
        ),
    ],
)
def test_a_path_goes_below_the_address(base: str, path: str, url: str) -> None:
    assert extended(base, path) == url


@pytest.mark.parametrize(
    ("text", "usual", "url"),
    [
        ("https://a.example/v1", "", "https://a.example/v1"),
        ("  https://a.example/v1\n", "", "https://a.example/v1"),
        ("a.example/v1", "https://b.example", "https://a.example/v1"),
        ("a.example/v1", "", "https://a.example/v1"),
        ("gpu-box:8000/v1", "http://localhost:8000/v1", "http://gpu-box:8000/v1"),
        ("localhost:8000", "https://b.example", "http://localhost:8000"),
        ("127.0.0.1:8000", "", "http://127.0.0.1:8000"),
        ("http://bücher:8000/v1?x=1", "", "http://xn--bcher-kva:8000/v1?x=1"),
    ],
)
def test_missing_scheme_never_exposes_key(text: str, usual: str, url: str) -> None:
    assert checked_address(text, provider="x", usual=usual) == url


@pytest.mark.parametrize(
    "text",
    [
        "ftp://a.example",
        "https://",
        "https:///path",
        "https://a.example:99999",
        "https://a.example:port",
        "https://[::1",
        "https://ü..example",
        "https://a.example/v1#part",
        "https://a.example/a b",
        "https://a.example/\r\nx: y",
        "https://a.example\\evil.example/",
        "file:///etc/passwd",
        "://x",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not an http or https address"):
        checked_address(text, provider="x", usual="")


def test_password_in_url_is_refused_unshown() -> None:
    with pytest.raises(InvalidRequest, match="user or a password") as caught:
        checked_address("https://me:geheim@a.example", provider="x", usual="")
    assert "geheim" not in str(caught.value)


def test_this_machine_is_local() -> None:
    assert is_local("http://localhost:1/v1")
    assert is_local("http://[::1]:1/v1")
    assert not is_local("https://localhost.example/v1")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://a.example", ("https://a.example", "", "")),
        (" a.example:8000/v1/?x=1/2 ", ("a.example:8000", "/v1", "?x=1/2")),
        ("http://[::1]:1/a/b", ("http://[::1]:1", "/a/b", "")),
        ("localhost:1/", ("localhost:1", "", "")),
        ("", ("", "", "")),
    ],
)
def test_an_address_has_three_parts(text: str, parts: tuple[str, str, str]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize(
    ("text", "anywhere", "host_alone"),
    [
        ("https://a.example", "https://a.example/v1", "https://a.example/v1"),
        ("https://a.example/?x=1", "https://a.example/v1?x=1", "https://a.example/v1?x=1"),
        ("https://a.example/llm", "https://a.example/llm/v1", "https://a.example/llm"),
        ("https://a.example/v1/", "https://a.example/v1", "https://a.example/v1"),
        (
            "https://a.example/v1beta/openai",
            "https://a.example/v1beta/openai",
            "https://a.example/v1beta/openai",
        ),
        ("https://a.example/vision", "https://a.example/vision/v1", "https://a.example/vision"),
        (
            "https://a.example/v1/chat/completions",
            "https://a.example/v1/chat/completions",
            "https://a.example/v1/chat/completions",
        ),
    ],
)
def test_a_missing_version_is_added(text: str, anywhere: str, host_alone: str) -> None:
    assert (versioned(text), versioned_host(text)) == (anywhere, host_alone)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://a.example/v1/?x=1", "https://a.example?x=1"),
        ("https://a.example/v2", "https://a.example"),
        ("https://a.example/v9", "https://a.example/v9"),
        ("https://a.example/gw/v1", "https://a.example/gw"),
        ("https://a.example/mv1", "https://a.example/mv1"),
    ],
)
def test_a_version_at_the_end_is_taken_off(text: str, url: str) -> None:
    assert without_version(text, "v1", "v2") == url
