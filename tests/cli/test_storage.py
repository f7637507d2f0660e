"""What stays between two runs: where it is, who may read it, and that it does not grow for ever."""

from __future__ import annotations

import os

import pytest

from llmstream.cli.storage import PromptHistory, state_file, store_path


def test_files_are_in_the_user_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    assert store_path() == tmp_path / "here" / "llmstream" / "chats.db"
    assert (tmp_path / "here" / "llmstream").stat().st_mode & 0o777 == 0o700


def test_a_relative_state_home_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_file("x") == tmp_path / ".local" / "state" / "llmstream" / "x"


@pytest.mark.parametrize("off", ["off", "0", " No ", "false"])
def test_nothing_stored_when_switched_off(off, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    monkeypatch.setenv("LLMSTREAM_HISTORY", off)
    assert store_path() is state_file("x") is None
    assert not (tmp_path / "here").exists()


def test_a_history_is_read_again(tmp_path):
    path = tmp_path / "history.jsonl"
    history = PromptHistory(path)
    for text in ("one", "two\nlines", "two\nlines", "  ", "\udcff"):
        history.add(text)
    assert PromptHistory(path).entries == ["one", "two\nlines", "?"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_crash_cut_is_left_out(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"one"\n"tw\n\xff\n3\n"four"\n')
    assert PromptHistory(path).entries == ["one", "four"]


def test_long_history_drops_its_older_half(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"{n}"\n' for n in range(2001)))
    assert PromptHistory(path).entries == [str(n) for n in range(1000, 2001)]
    assert len(path.read_text().splitlines()) == 1001


def test_unwritable_history_stays_in_memory(tmp_path):
    history = PromptHistory(tmp_path / "nowhere" / "history.jsonl")
    history.add("one")
    assert history.entries == ["one"]
    assert os.listdir(tmp_path) == []
