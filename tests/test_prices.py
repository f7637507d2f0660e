"""Estimates of cost: which counts are paid at which price, and what has none."""

from __future__ import annotations

import subprocess
import sys

import pytest

import llmstream as ls
from llmstream.prices import _SELLERS, estimated_price, installed_price, price
from llmstream.providers.registry import find_provider
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel


@pytest.fixture(autouse=True, name="listed")
def _listed(request: pytest.FixtureRequest) -> None:
    if "missing" not in request.node.name:
        pytest.importorskip("genai_prices", reason="the extra prices is not installed")


def of(model: str = "anthropic:claude-sonnet-4-5", **counts: int) -> float:
    cost = price(model, ls.Usage(**counts))
    assert cost is not None
    return cost


def test_input_and_output_priced_apart() -> None:
    read, written = of(input_tokens=1000), of(output_tokens=1000)
    assert 0 < read < written
    assert of(input_tokens=1000, output_tokens=1000) == pytest.approx(read + written)


def test_cached_cheaper_written_dearer() -> None:
    """Tokens read from the cache and tokens written to it."""
    plain = of(input_tokens=1000)
    assert of(input_tokens=1000, cached_input_tokens=1000) < plain
    assert of(input_tokens=1000, cache_write_tokens=1000) > plain


def test_reasoning_is_counted_once_in_output() -> None:
    assert of("openai:gpt-5", output_tokens=1000, reasoning_tokens=900) == of(
        "openai:gpt-5", output_tokens=1000
    )


def test_contradicting_counts_are_priced() -> None:
    assert of(input_tokens=10, cached_input_tokens=20, cache_write_tokens=5) == of(
        input_tokens=10, cached_input_tokens=10
    )
    assert of(output_tokens=10, reasoning_tokens=20) == of(output_tokens=10)


@pytest.mark.parametrize("model", ["sim:demo", "ollama:llama3", "openai:no-such-model", "plain", ""])
def test_what_has_no_public_price_has_none(model: str) -> None:
    assert price(model, ls.Usage(input_tokens=10)) is None


def test_what_was_not_counted_has_no_price() -> None:
    assert price("openai:gpt-5", ls.Usage()) is None


def test_sellers_are_known_providers() -> None:
    """The price list knows them too."""
    from genai_prices.data_snapshot import get_snapshot

    assert set(_SELLERS.values()) <= {provider.id for provider in get_snapshot().providers}
    for name in _SELLERS:
        assert find_provider(name).name == name


@pytest.mark.parametrize(
    "model",
    [
        "openai-responses:gpt-5",
        "google:gemini-2.5-pro",
        "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "openrouter:openai/gpt-5",
        "vertex-anthropic:claude-sonnet-4-5@20250929",
    ],
)
def test_models_found_by_vendor_names(model: str) -> None:
    assert of(model, input_tokens=1000) > 0


def test_an_agent_takes_it() -> None:
    assert ls.Agent("openai:gpt-5", price=price).model.name == "gpt-5"


async def test_long_prompt_rate_is_per_request() -> None:
    """Many short prompts are not one long one."""
    short, long = ls.Usage(150_000, 10), ls.Usage(300_000, 20)
    one, double = (price("google:gemini-2.5-pro", usage) or 0.0 for usage in (short, long))
    assert double > 2.1 * one

    async def look() -> str:
        return "seen"

    turns = [Turn(calls=(Call("look"),), usage=short), Turn(text="Done.", usage=short)]
    run = ls.Agent(
        ScriptedModel(*turns),
        tools=[look],
        price=lambda model, usage: price("google:gemini-2.5-pro", usage),
    ).stream("Go")
    await run.collect()
    assert run.total_usage.input_tokens == long.input_tokens
    assert run.cost_estimate == pytest.approx(2 * one)
    assert [step.cost_estimate for step in run.steps] == [pytest.approx(one)] * 2


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ls.Unsupported, match=r"pip install 'llmstream-sdk\[prices\]'"):
        price("openai:gpt-5", ls.Usage(input_tokens=1))


def test_an_estimate_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = ls.Usage(input_tokens=1)
    assert estimated_price("openai:gpt-5", usage) == price("openai:gpt-5", usage)
    assert installed_price() is price
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert estimated_price("openai:gpt-5", usage) is None


def test_the_list_is_loaded_where_needed() -> None:
    """It takes a tenth of a second, for nothing where a provider has no public price."""
    code = (
        "import sys, llmstream as ls\n"
        "from llmstream.prices import price\n"
        "assert price('ollama:llama3.2', ls.Usage(input_tokens=1)) is None\n"
        "assert 'genai_prices' not in sys.modules\n"
        "assert price('openai:gpt-5', ls.Usage(input_tokens=1))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
