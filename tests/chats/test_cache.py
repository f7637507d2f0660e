"""Conversations kept by id."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from llmstream.chats import Chat, ChatCache, Message, ToolCall, ToolResult
from llmstream.errors import DecodeError, InvalidRequest

CHAT = Chat(
    Message.user("hi"),
    Message.assistant(ToolCall("1", "f", "{}")),
    Message.tool([ToolResult("1", "x", name="f")]),
)


def test_a_missing_chat_is_not_found(tmp_path: Path) -> None:
    cache = ChatCache(tmp_path / "cache")
    with pytest.raises(FileNotFoundError):
        cache.read("nothing")
    with pytest.raises(FileNotFoundError):
        cache.delete("nothing")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    cache = ChatCache(tmp_path / "deep" / "cache")
    cache.write("a.B-1_", CHAT)
    assert cache.read("a.B-1_").messages() == CHAT.messages()
    cache.write("a.B-1_", Chat())
    assert len(cache.read("a.B-1_")) == 0


def test_what_is_deleted_is_missing(tmp_path: Path) -> None:
    cache = ChatCache(tmp_path)
    cache.write("a", CHAT)
    cache.delete("a")
    with pytest.raises(FileNotFoundError):
        cache.read("a")


@pytest.mark.parametrize(
    "id",
    [
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "../a",
        "/etc/passwd",
        "a\\b",
        "a\x00",
        "a\n",
        "C:a",
        "é",
        "x" * 129,
        "\ud83d",
    ],
)
def test_empty_or_pathlike_id_is_invalid(tmp_path: Path, id: str) -> None:
    cache = ChatCache(tmp_path / "cache")
    for use in (cache.read, cache.delete, lambda id: cache.write(id, CHAT)):
        with pytest.raises(InvalidRequest, match="cannot be the id"):
            use(id)
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_folder_and_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ChatCache(tmp_path / "cache").write("a", CHAT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "cache").iterdir()] == [0o600]


def test_expired_chat_is_missing_and_removed(tmp_path: Path) -> None:
    now_s = 1_000.0
    cache = ChatCache(tmp_path, max_age_s=60, clock=lambda: now_s)
    cache.write("a", CHAT)
    now_s += 59
    assert len(cache.read("a")) == 3
    now_s += 1
    assert len(os.listdir(tmp_path)) == 1
    with pytest.raises(FileNotFoundError, match="expired after 60 s"):
        cache.read("a")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        cache.read("a")


def test_rewriting_restarts_the_age(tmp_path: Path) -> None:
    """Without a limit nothing expires."""
    now_s = 0.0
    cache = ChatCache(tmp_path, max_age_s=60, clock=lambda: now_s)
    cache.write("a", CHAT)
    now_s += 50
    cache.write("a", CHAT)
    now_s += 50
    assert len(cache.read("a")) == 3
    now_s += 1e9
    assert len(ChatCache(tmp_path, clock=lambda: now_s).read("a")) == 3


def test_damaged_file_is_decode_error_stays(tmp_path: Path) -> None:
    cache = ChatCache(tmp_path)
    cache.write("a", CHAT)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DecodeError, match=f"{file.name}: not a saved chat"):
        cache.read("a")
    assert file.exists()
