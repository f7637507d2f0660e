"""`llmstream providers`."""

from __future__ import annotations

import json

import pytest

from llmstream.cli import main, providers
from llmstream.errors import Unsupported
from llmstream.providers.registry import all_providers, provider_names


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["providers", "--json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_provider_has_a_row(capsys):
    assert list(listed(capsys)) == list(provider_names())
    assert main(["providers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "TITLE", "DIALECT", "KEY", "ADDRESS", "NOTES"]
    assert [line.split()[0] for line in lines[1:]] == list(provider_names())


def test_table_shows_set_keys_never_values(capsys, monkeypatch):
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


def test_environment_address_named_not_shown(capsys, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://me:secret@ollama.example:1234")
    assert main(["providers"]) == 0
    text = capsys.readouterr().out
    assert "from OLLAMA_HOST" in text
    assert "secret" not in text
    assert listed(capsys)["ollama"]["baseUrlFrom"] == "OLLAMA_HOST"


def test_unloadable_provider_is_a_warning(capsys, monkeypatch):
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


def test_one_provider_is_shown_in_full(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-mine")
    assert main(["providers", "OpenAI"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("openai: OpenAI\n")
    assert "✓ OPENAI_API_KEY is set" in out
    assert "https://api.openai.com/v1" in out
    assert "OPENAI_BASE_URL" in out
    assert "openai-responses" in out  # which has the same key
    assert "supports   tools, " in out
    assert "The o-series and gpt-5 and later" in out  # of its notes
    assert "](../" not in out
    assert "sk-secret" not in out


@pytest.mark.parametrize("name", provider_names())
def test_every_provider_can_be_shown(name, capsys):
    assert main(["providers", name]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{name}: ")
    assert err == ""


def test_an_alias_shows_its_provider(capsys):
    assert main(["providers", "claude"]) == 0
    assert capsys.readouterr().out.startswith("anthropic: Anthropic")


def test_word_lists_the_matching_providers(capsys):
    assert main(["providers", "bedro"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert "bedrock-invoke" in names
    assert all("bedrock" in name for name in names)


def test_word_without_match_is_wrong_usage(capsys):
    assert main(["providers", "opnai"]) == 2
    assert "Did you mean openai?" in capsys.readouterr().err


def test_only_those_whose_key_is_set(capsys, monkeypatch):
    for provider in all_providers():
        for name in (*provider.key_env, *provider.token_env):
            monkeypatch.delenv(name, raising=False)
    assert main(["providers", "--json", "--set"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret")
    assert main(["providers", "--json", "--set"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["groq"]


def test_matrix_shows_capabilities_of_each(capsys):
    assert main(["providers", "--matrix"]) == 0
    heads, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert [line[0] for line in lines] == list(provider_names())
    assert {len(line) for line in lines} == {len(heads)}
    by_name = {line[0]: dict(zip(heads, line, strict=True)) for line in lines}
    assert by_name["anthropic"]["IMAGES"] == "bytes+url"
    assert by_name["zai"]["FORCED-CALL"] == "-"
    assert listed(capsys)["openai"]["abilities"]["audio"] == ["bytes"]
