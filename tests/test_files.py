"""Files written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from llmstream.files import read_file, replace_file

posix_only = pytest.mark.skipif(os.name != "posix", reason="modes and links as POSIX has them")


def test_file_is_written_replaced_no_debris(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_file(path, b"one")
    replace_file(str(path), b"two", modified_at_s=1.5)
    assert read_file(path) == b"two"
    assert path.stat().st_mtime == 1.5
    assert os.listdir(tmp_path) == ["a"]


def test_longest_and_relative_names_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replace_file("n" * 255, b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


@posix_only
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_owner_may_read_at_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        replace_file(tmp_path / "a", b"secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@posix_only
def test_symlink_replaced_target_untouched(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert target.read_bytes() == b"mine"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


def test_failed_write_leaves_only_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    replace_file(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space"):
                replace_file(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "no" / "a", b"x")


@posix_only
@pytest.mark.parametrize("action", [read_file, lambda path: replace_file(path, b"x")], ids=["read", "write"])
def test_pipe_or_device_not_read_or_replaced(action, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull), Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            action(path)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert stat.S_ISCHR(os.lstat(os.devnull).st_mode)


@posix_only
def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(tmp_path, b"x")
