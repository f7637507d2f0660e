"""Routes as data: names, patterns, fallbacks and gateway.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

import llmstream as ls
from llmstream.events import Usage
from llmstream.gateway import Gateway, Price, Route, Routes, Target, load_settings
from llmstream.gateway.routes import routes_of

FILE = """
listen = "127.0.0.1:4100"
store = "kept/gateway.db"

[models."claude-sonnet"]
use = ["anthropic:claude-sonnet-4-5", { model = "openai:gpt-5", base_url = "http://localhost:1/v1" }]

[models."gpt-*"]
use = "openai:*"
api_key_env = "TEAM_KEY"
price = { input = 1, output = 2 }

[models."any/*"]
use = "openrouter:*"

[limits]
requests_per_minute = 500

[tags]
research = "20usd/30d"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    return path


def names(routes: Routes, asked: str) -> list[str]:
    return [f"{model.provider.name}:{model.name}" for model, _ in routes.find(asked).asked(asked)]


def test_files_name_models_and_limits(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, FILE))
    assert settings.address == ("127.0.0.1", 4100)
    assert settings.store == str(tmp_path / "kept" / "gateway.db")
    assert settings.tags == {"research": "20usd/30d"}
    assert settings.limits.requests_per_minute == 500
    routes = settings.routes
    assert names(routes, "claude-sonnet") == ["anthropic:claude-sonnet-4-5", "openai:gpt-5"]
    assert names(routes, "gpt-5-mini") == ["openai:gpt-5-mini"]
    assert names(routes, "any/meta/llama") == ["openrouter:meta/llama"]
    assert routes.names == ("claude-sonnet",)
    second = routes.find("claude-sonnet").targets[1]
    assert second.base_url == "http://localhost:1/v1"
    assert routes.find("gpt-x").targets[0].price == Price(input=1, output=2)


def test_exact_names_win_then_longest() -> None:
    routes = routes_of({"*": "sim:a", "gpt-*": "sim:b", "gpt-5*": "sim:c", "gpt-5": "sim:d"})
    assert [names(routes, name) for name in ("x", "gpt-4", "gpt-5-mini", "gpt-5")] == [
        ["sim:a"],
        ["sim:b"],
        ["sim:c"],
        ["sim:d"],
    ]
    with pytest.raises(ls.NotFound, match=r"no model 'x'\. It has: a, b"):
        routes_of({"a": "sim:a", "b": "sim:b"}).find("x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "missing required field `models`"),
        ("[models]", "no route"),
        ("[models.a]\nuse = []", "has no model"),
        ('[models.a]\nuse = "gpt-5"', 'is not "provider:model"'),
        ('[models.a]\nuse = "opnai:gpt-5"', "No provider is called 'opnai'"),
        ('[models.a]\nuse = "openai:*"', "needs a pattern"),
        ('[models.a]\nuse = "openai:b"\nfallback = 1', "unknown field `fallback`"),
        ('keep_log = "1h"\n[models.a]\nuse = "openai:b"', "at least 1d"),
        ('[tags]\na = "much"\n[models.a]\nuse = "openai:b"', "'much' is not a budget"),
        ('[models.a]\nuse = "openai:b"\nbase_url = "ftp://x"', "ftp:"),
        ('listen = "4000"\n[models.a]\nuse = "openai:b"', 'listen is "HOST:PORT"'),
        ("[models.a", "gateway.toml: "),
    ],
)
def test_mistakes_name_file_and_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ls.InvalidRequest) as caught:
        load_settings(written(tmp_path, text))
    assert problem in caught.value.message
    assert "gateway.toml" in caught.value.message or "listen" in problem or "budget" in problem


def test_prices_count_the_cache_apart() -> None:
    price = Price(input=2.0, output=10.0, cached_input=0.5)
    assert price.cost(Usage(1_000_000, 100_000, cached_input_tokens=400_000)) == pytest.approx(
        1.2 + 0.2 + 1.0
    )


def test_keys_come_from_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each call, so that a key may change while the gateway runs."""
    route = Route("a", (Target("openai:a", api_key_env="TEAM_KEY"),))
    ((model, _),) = route.asked("a")
    monkeypatch.setenv("TEAM_KEY", "first")
    assert model._api_key() == "first"
    monkeypatch.setenv("TEAM_KEY", "second")
    assert model._api_key() == "second"


def test_programs_may_mix_models_and_names() -> None:
    gateway = Gateway({"a": ["sim:demo", ls.Model("sim:probe")]})
    assert names(gateway.routes, "a") == ["sim:demo", "sim:probe"]
    with pytest.raises(ls.InvalidRequest, match="has no model"):
        Gateway({"a": []})


def test_stores_by_their_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = '\n[models.a]\nuse = "openai:b"'
    for given, found in {
        "redis://host/0": "redis://host/0",
        "sqlite:kept.db": str(tmp_path / "kept.db"),
        "/var/lib/kept.db": "/var/lib/kept.db",
    }.items():
        path = written(tmp_path, f'store = "{given}"\nkeep_log = "30d"{rest}')
        settings = load_settings(path)
        assert (settings.store, settings.keep_log_s) == (found, 30 * 86400.0)
    monkeypatch.setenv("LLMSTREAM_GATEWAY_STORE", "redis://:secret@host/0")
    assert load_settings(path).store == "redis://:secret@host/0"
