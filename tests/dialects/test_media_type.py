"""Media types by the first bytes."""

from __future__ import annotations

import pytest

from llmstream.dialects.media import audio_type, image_type


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF0000WEBPVP8 ", "image/webp"),
        (b"", "image/png"),
    ],
)
def test_images(data, name):
    assert image_type(data) == name


def test_unknown_image_has_the_callers_type():
    assert image_type(b"??", "image/*") == "image/*"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"RIFF", "audio/wav"),
        (b"ID3", "audio/mpeg"),
        (b"\xff\xfb", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"\x00\x01", "audio/pcm"),
    ],
)
def test_recordings(data, name):
    assert audio_type(data) == name
