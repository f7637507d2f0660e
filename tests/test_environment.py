"""Variables of the environment: what is remembered is never old."""

import os

from llmstream.environment import is_own, variables


def test_variables_are_those_of_os_environ():
    assert dict(variables()) == dict(os.environ)


def test_change_is_seen_at_once(monkeypatch):
    monkeypatch.setenv("LLMSTREAM_TEST", "one")
    assert variables()["LLMSTREAM_TEST"] == "one"
    monkeypatch.setenv("LLMSTREAM_TEST", "two")
    assert variables()["LLMSTREAM_TEST"] == "two"
    monkeypatch.delenv("LLMSTREAM_TEST")
    assert "LLMSTREAM_TEST" not in variables()


def test_without_a_change_nothing_is_read():
    assert variables() is variables()


def test_replaced_environment_is_read(monkeypatch):
    monkeypatch.setattr(os, "environ", {"ONLY": "this"})
    assert dict(variables()) == {"ONLY": "this"}


def test_text_that_is_no_utf8_is_kept(monkeypatch):
    monkeypatch.setenv("LLMSTREAM_TEST", "\udcff")
    assert variables()["LLMSTREAM_TEST"] == os.environ["LLMSTREAM_TEST"] == "\udcff"


def test_own_environment_is_known(monkeypatch):
    assert is_own(os.environ)
    assert is_own(variables())
    assert not is_own({})
