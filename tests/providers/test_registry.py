from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmstream.errors import InvalidRequest, Unsupported
from llmstream.providers import registry
from llmstream.providers.registry import all_providers, find_provider, provider_names

Install = Callable[..., None]

ZETA = """
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.providers.base import Provider

ZETA = Provider(
    name="zeta-eu", dialect=OpenAIChat(), base_url="https://api.zeta.example/v1", aliases=("zeta-europe",)
)
NUMBER = 7
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path: lines of entry points, and the module they point into."""

    def put(entries: str, source: str = ZETA) -> None:
        (tmp_path / "zeta_llm.py").write_text(source)
        info = tmp_path / "zeta_llm-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zeta-llm\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llmstream.providers]\n{entries}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "zeta_llm", raising=False)
        registry._from_entry_point.cache_clear()

    yield put
    sys.modules.pop("zeta_llm", None)
    registry._from_entry_point.cache_clear()


def test_our_names_are_the_folders_sorted() -> None:
    names = provider_names()
    assert {"openai", "anthropic", "ollama", "gemini-openai", "vercel-gateway"} <= set(names)
    assert list(names) == sorted(names)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("openai", "openai"),
        ("OpenAI", "openai"),
        ("ollama_openai", "ollama-openai"),
        ("moonshotai", "moonshot"),
        ("kimi", "moonshot"),
        ("alibaba", "qwen"),
        ("dashscope", "qwen"),
        ("zhipu", "bigmodel"),
        ("zhipuai", "bigmodel"),
        ("hf", "huggingface"),
        ("togetherai", "together"),
        ("together-ai", "together"),
        ("grok", "xai"),
        ("vercel", "vercel-gateway"),
        ("lm-studio", "lmstudio"),
        ("llama.cpp", "llamacpp"),
        ("llama-cpp", "llamacpp"),
        ("azure-openai", "azure"),
        ("nim", "nvidia"),
        ("google-openai", "gemini-openai"),
    ],
)
def test_provider_is_found_by_name_and_alias(written: str, name: str) -> None:
    assert find_provider(written).name == name


def test_a_provider_is_loaded_once() -> None:
    assert find_provider("grok") is find_provider("xai")


@pytest.mark.parametrize(
    ("written", "close"), [("opnai", "openai"), ("antropic", "anthropic"), ("grokk", "xai")]
)
def test_unknown_name_suggests_a_close_one(written: str, close: str) -> None:
    with pytest.raises(InvalidRequest, match=f"Did you mean .*{close}"):
        find_provider(written)


def test_what_is_not_close_is_not_suggested() -> None:
    with pytest.raises(InvalidRequest) as raised:
        find_provider("opnai")
    assert "Did you mean openai? " in str(raised.value)


@pytest.mark.parametrize("written", ["", "zzzzzz", "base", "registry", "../openai", "openai.x", "sim.server"])
def test_what_is_no_provider_is_none(written: str) -> None:
    with pytest.raises(InvalidRequest, match="llmstream providers"):
        find_provider(written)


@pytest.mark.parametrize("written", ["github", "GitHub_Models"])
def test_retired_vendor_names_a_replacement(written: str) -> None:
    with pytest.raises(InvalidRequest, match=r"2026-07-30.*copilot:MODEL"):
        find_provider(written)


def test_names_and_aliases_are_unique() -> None:
    words = [word for p in all_providers() for word in (p.name, *p.aliases)]
    assert len(words) == len(set(words))
    assert all(word == word.strip().lower().replace("_", "-") for word in words)


def test_another_packages_provider_is_found(install: Install) -> None:
    install("zeta-eu = zeta_llm:ZETA")
    assert provider_names()[-1] == "zeta-eu"
    assert find_provider("zeta-eu").base_url == "https://api.zeta.example/v1"
    assert find_provider("zeta_eu") is find_provider("zeta-europe")
    assert "zeta-eu" in [p.name for p in all_providers()]


def test_another_package_cannot_replace_ours(install: Install) -> None:
    install("openai = zeta_llm:ZETA")
    assert find_provider("openai").base_url == "https://api.openai.com/v1"
    assert provider_names().count("openai") == 1


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("zeta = zeta_llm:NUMBER", "is not a Provider but int"),
        ("zeta = zeta_llm:MISSING", "cannot be loaded: AttributeError"),
        ("zeta = no_such_module:ZETA", "cannot be loaded: ModuleNotFoundError"),
        ("zeta = zeta_llm:ZETA", "with the name 'zeta-eu'"),
    ],
)
def test_wrong_entry_point_names_its_package(
    install: Install, caplog: pytest.LogCaptureFixture, entry: str, words: str
) -> None:
    install(entry)
    with pytest.raises(Unsupported, match=words) as caught:
        find_provider("zeta")
    assert "'zeta'" in str(caught.value)
    assert "zeta-llm" in str(caught.value)
    with caplog.at_level(logging.WARNING, logger="llmstream"):
        names = [p.name for p in all_providers()]
    assert "openai" in names
    assert "zeta" not in names
    assert words in caplog.text


def test_broken_package_hides_no_aliases(install: Install) -> None:
    install("broken = no_such_module:ZETA\nzeta-eu = zeta_llm:ZETA")
    assert find_provider("zeta-europe").name == "zeta-eu"


def test_importing_the_registry_is_light() -> None:
    code = (
        "import sys, llmstream.providers.registry; "
        "heavy = {'aiohttp', 'difflib', 'importlib.metadata', 'llmstream.dialects.openai_chat'}; "
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_loading_providers_opens_no_network() -> None:
    code = (
        "import sys; from llmstream.providers.registry import all_providers; "
        "assert len(list(all_providers())) > 30; print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
