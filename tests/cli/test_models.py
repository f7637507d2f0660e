"""`llmstream models`: lists of the providers' APIs, the price list without a key, the default model."""

from __future__ import annotations

import json

import pytest

from llmstream.cli import main
from llmstream.simulator import Script, Turn

LISTED = ("small-1", "large-1", "large-2")


@pytest.fixture
def openai(simulate, monkeypatch, typed_in):
    """OpenAI as a simulator that lists three models."""
    simulator = simulate(Script((Turn(text="So."),)), models=LISTED, api_keys=["right"])
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    typed_in("")
    return simulator


def test_models_of_an_api_are_listed(openai, capsys):
    assert main(["models", "openai"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["MODEL", *(f"openai:{name}" for name in LISTED)]


def test_models_are_found_by_all_words(openai, capsys):
    assert main(["models", "openai", "large", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["openai:large-2"]
    assert main(["models", "openai", "huge"]) == 2
    assert "no model's name contains huge" in capsys.readouterr().err


def test_all_providers_with_a_key_are_asked(openai, capsys):
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    mine = [row for row in found if row["provider"] == "openai"]
    assert [(row["model"], row["source"]) for row in mine] == [(f"openai:{name}", "api") for name in LISTED]


def test_sizes_of_the_api_are_shown(simulate, capsys, monkeypatch):
    simulator = simulate(Script((Turn(text="So."),)), models=("gemini-x",))
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert main(["models", "google", "--json", "--base-url", simulator.url]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["contextTokens"], row["maxOutputTokens"]) == (1_048_576, 65_536)


def test_price_list_stands_in_without_a_key(capsys):
    pytest.importorskip("genai_prices")
    assert main(["models", "openai", "gpt-5-mini", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["model"], row["source"]) == ("openai:gpt-5-mini", "price-list")
    assert row["contextTokens"] > 100_000
    assert row["outputUsdPerMillion"] > row["inputUsdPerMillion"] > 0


def test_without_key_or_prices_is_an_error(capsys):
    assert main(["models", "synthetic"]) == 2
    assert "llmstream keys set synthetic" in capsys.readouterr().err


def test_a_refused_key_is_status_3(openai, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-secret")
    assert main(["models", "openai"]) == 3
    err = capsys.readouterr().err
    assert "OPENAI_API_KEY" in err
    assert "wrong-secret" not in err


def test_the_default_model_is_used(openai, capsys):
    assert main(["models", "default", "openai:large-1"]) == 0
    assert main(["models", "default"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "openai:large-1"
    assert main(["chat", "Hi"]) == 0
    assert openai.requests[-1].request.model == "large-1"
    assert main(["models", "default", "--remove"]) == 0
    assert main(["chat", "Hi"]) == 2
    assert "llmstream models default" in capsys.readouterr().err


def test_the_environment_names_the_model(openai, capsys, monkeypatch):
    main(["models", "default", "openai:large-1"])
    monkeypatch.setenv("LLMSTREAM_MODEL", "openai:small-1")
    assert main(["chat", "Hi"]) == 0
    assert openai.requests[-1].request.model == "small-1"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["models", "opnai"], "Did you mean openai?"),
        (["models", "default", "gpt-5"], "Did you mean openai:gpt-5?"),
        (["models", "--remove"], "option of `llmstream models default`"),
        (["models", "--base-url", "http://127.0.0.1:1"], "needs a provider"),
    ],
)
def test_mistakes_name_the_remedy(argv, words, capsys):
    assert main(argv) == 2
    assert words in capsys.readouterr().err
