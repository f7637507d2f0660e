"""Files that go with a prompt."""

from __future__ import annotations

import pytest

from llmstream.chats import Audio, Document, Image, Text
from llmstream.cli.arguments import attached
from llmstream.errors import InvalidRequest


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("a", b"\x89PNG\r\n\x1a\n.", Image(data=b"\x89PNG\r\n\x1a\n.", media_type="image/png")),
        ("a.png", b"\xff\xd8\xff.", Image(data=b"\xff\xd8\xff.", media_type="image/jpeg")),
        ("a", b"RIFF....WEBP.", Image(data=b"RIFF....WEBP.", media_type="image/webp")),
        ("a", b"RIFF....WAVE.", Audio(data=b"RIFF....WAVE.", media_type="audio/wav")),
        ("a.mp3", b"\xff\xfb.", Audio(data=b"\xff\xfb.", media_type="audio/mpeg")),
        ("a.txt", b"%PDF-1", Document(data=b"%PDF-1", media_type="application/pdf", filename="a.txt")),
        ("a.py", "x = 'é'\n".encode(), Text("a.py:\n\nx = 'é'\n")),
    ],
)
def test_a_file_is_what_its_content_says(name, data, part, tmp_path):
    (tmp_path / name).write_bytes(data)
    assert attached(str(tmp_path / name)) == part


@pytest.mark.parametrize("data", [b"\x00binary", b"\xff\xfe\xfd", b""])
def test_what_no_model_takes_is_refused(data, tmp_path):
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(InvalidRequest, match="cannot attach"):
        attached(str(tmp_path / "a.bin"))


def test_an_address_is_not_downloaded():
    assert attached("https://example.com/a.png?x=1") == Image(
        url="https://example.com/a.png?x=1", media_type="image/png"
    )
    assert attached("https://example.com/a.pdf") == Document(
        url="https://example.com/a.pdf", media_type="application/pdf", filename="a.pdf"
    )
