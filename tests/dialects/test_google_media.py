"""Media on the way to Google. What each dialect makes of them is in its own tests."""

from __future__ import annotations

import pytest

from llmstream.chats.content import Audio, Document, Image
from llmstream.dialects.gemini import Gemini
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.dialects.media import (
    Media,
    base64_bytes,
    media_of,
    part_of_media,
    sampled_type,
    sampling_of,
    without_sampling,
)


@pytest.mark.parametrize("text", ["-_-_", "+/+/", "-_-_\n", "+/ +/"])
def test_base64_of_either_alphabet(text):
    assert base64_bytes(text) == b"\xfb\xff\xbf"


def test_base64_without_padding():
    assert (base64_bytes("aGk"), base64_bytes("aGk="), base64_bytes("")) == (b"hi", b"hi", b"")


@pytest.mark.parametrize("text", ["!", "a", "aGk=aGk="])
def test_what_is_no_base64(text):
    with pytest.raises(ValueError):
        base64_bytes(text)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"RIFF....WEBP", "image/webp"),
        (b"RIFF....WAVE", "audio/wav"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-1.7", "application/pdf"),
        (b"ID3", "audio/mpeg"),
    ],
)
def test_types_by_the_first_bytes(data, media_type):
    assert media_of(Image(data=data), fetches_urls=True, provider="x") == Media(media_type, data)


def test_a_type_that_is_said_counts():
    part = Image(data=b"GIF89a", media_type="IMAGE/JPG; q=1")
    assert media_of(part, fetches_urls=True, provider="x").media_type == "image/jpeg"


def test_parts_by_their_type():
    assert part_of_media("image/png", data=b"x") == Image(data=b"x", media_type="image/png")
    assert part_of_media("audio/wav", url="u") == Audio(url="u", media_type="audio/wav")
    assert part_of_media("video/mp4") == Document(media_type="video/mp4")


@pytest.mark.parametrize(
    ("url", "yes"),
    [
        ("gs://b/c", True),
        ("https://generativelanguage.googleapis.com/v1beta/files/a", True),
        ("https://youtu.be/x", True),
        ("https://a.example/b.png", False),
        ("", False),
    ],
)
def test_urls_that_every_model_reads(url, yes):
    for dialect in (Gemini(), GeminiInteractions()):
        assert dialect.accepts_url(Image(url=url)) is yes


@pytest.mark.parametrize(
    ("media_type", "rate", "channels", "sampled"),
    [
        ("audio/l16", 24000, 1, "audio/l16;rate=24000;channels=1"),
        ("audio/L16; codec=pcm", 24000, None, "audio/L16; codec=pcm;rate=24000"),
        ("audio/l16;rate=8000", 24000, 2, "audio/l16;rate=8000;channels=2"),
        ("audio/l16", 0, "1", "audio/l16"),
        ("audio/wav", 24000, 1, "audio/wav"),
    ],
)
def test_bare_samples_say_their_rate(media_type, rate, channels, sampled):
    assert sampled_type(media_type, rate, channels) == sampled


@pytest.mark.parametrize(
    ("media_type", "told", "plain"),
    [
        ("audio/l16;rate=24000;channels=1", {"sample_rate": 24000, "channels": 1}, "audio/l16"),
        ("audio/L16;codec=pcm;rate=24000", {"sample_rate": 24000}, "audio/L16"),
        ("audio/l16;codec=pcm", {}, "audio/l16;codec=pcm"),
        ("audio/l16;rate=" + "9" * 5000, {}, "audio/l16;rate=" + "9" * 5000),
        ("audio/wav;rate=8000", {}, "audio/wav;rate=8000"),
    ],
)
def test_the_rate_is_read_again(media_type, told, plain):
    assert sampling_of(media_type) == told
    assert without_sampling(media_type) == plain
