"""Messages of commands."""

from __future__ import annotations

from llmstream.cli.terminal import print_message


def test_a_complaint_is_one_harmless_line(capsys):
    print_message("the server said: \x1b]0;x\x07 and\nmore")
    assert capsys.readouterr().err == "llmstream: the server said: \\x1b]0;x\\x07 and\\nmore\n"
