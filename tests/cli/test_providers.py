"""`llmstream providers`."""

from __future__ import annotations

import json

import pytest

from llmstream.cli import main, providers
from llmstream.errors import Unsupported
from llmstream.providers.registry import provider_names


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["providers", "--json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_provider_has_a_row(capsys):
    assert list(listed(capsys)) == list(provider_names())
    assert main(["providers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "TITLE", "DIALECT", "KEY", "ADDRESS", "NOTES"]
    assert [line.split()[0] for line in lines[1:]] == list(provider_names())


def test_the_table_says_which_keys_are_set_and_never_their_values(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-mine")
    assert main(["providers"]) == 0
    text = capsys.readouterr().out
    assert "OPENAI_API_KEY: set" in text
    assert "ANTHROPIC_API_KEY: not set" in text
    assert "OLLAMA_API_KEY: not needed" in text
    rows = listed(capsys)
    assert rows["openai"]["keySet"] is True
    assert rows["anthropic"]["keySet"] is False
    assert "sk-secret" not in text + json.dumps(rows)


def test_a_blank_key_is_not_set(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert listed(capsys)["openai"]["keySet"] is False


def test_an_address_of_the_environment_is_named_and_not_shown(capsys, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://me:secret@ollama.example:1234")
    assert main(["providers"]) == 0
    text = capsys.readouterr().out
    assert "from OLLAMA_HOST" in text
    assert "secret" not in text
    assert listed(capsys)["ollama"]["baseUrlFrom"] == "OLLAMA_HOST"


def test_a_provider_that_cannot_be_loaded_is_a_warning(capsys, monkeypatch):
    find = providers.find_provider

    def broken(name):
        if name == "ollama":
            raise Unsupported("the entry point is broken\x07")
        return find(name)

    monkeypatch.setattr(providers, "find_provider", broken)
    assert main(["providers"]) == 0
    out, err = capsys.readouterr()
    assert "ollama cannot be loaded: the entry point is broken\\x07" in err
    assert "anthropic" in out


def test_the_matrix_says_what_each_may_be_asked_for(capsys):
    assert main(["providers", "--matrix"]) == 0
    heads, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert [line[0] for line in lines] == list(provider_names())
    assert {len(line) for line in lines} == {len(heads)}
    by_name = {line[0]: dict(zip(heads, line, strict=True)) for line in lines}
    assert by_name["anthropic"]["IMAGES"] == "bytes+url"
    assert by_name["zai"]["FORCED-CALL"] == "-"
    assert listed(capsys)["openai"]["abilities"]["audio"] == ["bytes"]
