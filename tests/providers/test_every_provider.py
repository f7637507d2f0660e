"""What holds for every provider in the registry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError, MissingKey
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Provider, is_local
from llmstream.providers.registry import find_provider, our_provider_names, provider_notes
from llmstream.providers.sim import SimProvider
from llmstream.request import Request
from tests.each import for_each

NAMES = our_provider_names()
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
VENDORS = [name for name in NAMES if not isinstance(find_provider(name), SimProvider)]
KEY = "sk-canary-0123456789"
AZURE = "https://res.openai.azure.com"
ENVIRONMENT: dict[str, str] = json.loads(Path(__file__).with_name("environment.json").read_text("utf-8"))
PLACES = {name: value for name, value in ENVIRONMENT.items() if "://" not in value}
"""What stands in the places of addresses; whole addresses are given by `prepared`."""


URLS = {
    "google": (
        "https://generativelanguage.googleapis.com/v1beta/models/some-model:streamGenerateContent?alt=sse"
    ),
    "google-interactions": "https://generativelanguage.googleapis.com/v1beta/interactions?alt=sse",
    "vertex": (
        "https://aiplatform.googleapis.com/v1/publishers/google/models/some-model:streamGenerateContent?alt=sse"
    ),
    "vertex-anthropic": (
        "https://aiplatform.googleapis.com/v1/projects/p1/locations/global/publishers/anthropic"
        "/models/some-model:streamRawPredict"
    ),
    "azure-chat": "https://res.openai.azure.com/openai/v1/chat/completions",
    "azure-responses": "https://res.openai.azure.com/openai/v1/responses",
    "lmstudio-responses": "http://localhost:1234/v1/responses",
    "openai-chat": "https://api.openai.com/v1/chat/completions",
    "openai-responses": "https://api.openai.com/v1/responses",
    "openrouter-responses": "https://openrouter.ai/api/v1/responses",
    "xai-responses": "https://api.x.ai/v1/responses",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "azure": "https://res.openai.azure.com/openai/v1/chat/completions",
    "bigmodel": "https://open.bigmodel.cn/api/paas/v4/chat/completions",
    "baseten": "https://inference.baseten.co/v1/chat/completions",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com/model/some-model/converse-stream",
    "bedrock-invoke": (
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/some-model/invoke-with-response-stream"
    ),
    "cerebras": "https://api.cerebras.ai/v1/chat/completions",
    "cohere": "https://api.cohere.com/v2/chat",
    "copilot": "https://api.githubcopilot.com/chat/completions",
    "deepinfra": "https://api.deepinfra.com/v1/openai/chat/completions",
    "deepseek": "https://api.deepseek.com/chat/completions",
    "doubleword": "https://api.doubleword.ai/v1/chat/completions",
    "fireworks": "https://api.fireworks.ai/inference/v1/chat/completions",
    "gemini-openai": "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
    "groq": "https://api.groq.com/openai/v1/chat/completions",
    "huggingface": "https://router.huggingface.co/v1/chat/completions",
    "inception": "https://api.inceptionlabs.ai/v1/chat/completions",
    "litellm": "http://localhost:4000/chat/completions",
    "llamacpp": "http://localhost:8080/v1/chat/completions",
    "lmstudio": "http://localhost:1234/v1/chat/completions",
    "minimax": "https://api.minimax.io/v1/chat/completions",
    "mistral": "https://api.mistral.ai/v1/chat/completions",
    "moonshot": "https://api.moonshot.ai/v1/chat/completions",
    "nebius": "https://api.tokenfactory.nebius.com/v1/chat/completions",
    "nvidia": "https://integrate.api.nvidia.com/v1/chat/completions",
    "ollama": "http://localhost:11434/api/chat",
    "ollama-openai": "http://localhost:11434/v1/chat/completions",
    "openai": "https://api.openai.com/v1/chat/completions",
    "openrouter": "https://openrouter.ai/api/v1/chat/completions",
    "perplexity": "https://api.perplexity.ai/v1/responses",
    "qwen": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
    "sambanova": "https://api.sambanova.ai/v1/chat/completions",
    "sglang": "http://localhost:30000/v1/chat/completions",
    "together": "https://api.together.ai/v1/chat/completions",
    "venice": "https://api.venice.ai/api/v1/chat/completions",
    "vercel-gateway": "https://ai-gateway.vercel.sh/v1/chat/completions",
    "vllm": "http://localhost:8000/v1/chat/completions",
    "xai": "https://api.x.ai/v1/chat/completions",
    "zai": "https://api.z.ai/api/paas/v4/chat/completions",
    "aihubmix": "https://aihubmix.com/v1/chat/completions",
    "aws-anthropic": "https://aws-external-anthropic.us-east-1.api.aws/v1/messages",
    "bedrock-messages": "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages",
    "bedrock-openai": "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/chat/completions",
    "bedrock-responses": "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/responses",
    "chutes": "https://llm.chutes.ai/v1/chat/completions",
    "cloudflare": "https://api.cloudflare.com/client/v4/accounts/account/ai/v1/chat/completions",
    "copilot-anthropic": "https://api.githubcopilot.com/v1/messages",
    "copilot-responses": "https://api.githubcopilot.com/responses",
    "crusoe": "https://api.inference.crusoecloud.com/v1/chat/completions",
    "databricks": "https://workspace.cloud.databricks.com/ai-gateway/mlflow/v1/chat/completions",
    "deepseek-responses": "https://api.deepseek.com/responses",
    "digitalocean": "https://inference.do-ai.run/v1/chat/completions",
    "docker-model-runner": "http://localhost:12434/engines/v1/chat/completions",
    "featherless": "https://api.featherless.ai/v1/chat/completions",
    "foundry-anthropic": "https://resource.services.ai.azure.com/anthropic/v1/messages",
    "friendli": "https://api.friendli.ai/serverless/v1/chat/completions",
    "gmi": "https://api.gmi-serving.com/v1/chat/completions",
    "hyperbolic": "https://api.hyperbolic.xyz/v1/chat/completions",
    "io-net": "https://api.intelligence.io.solutions/api/v1/chat/completions",
    "kimi-coding": "https://api.kimi.com/coding/v1/messages",
    "llamafile": "http://localhost:8080/v1/chat/completions",
    "meta": "https://api.meta.ai/v1/responses",
    "meta-chat": "https://api.meta.ai/v1/chat/completions",
    "minimax-anthropic": "https://api.minimax.io/anthropic/v1/messages",
    "mistral-responses": "https://api.mistral.ai/v1/responses",
    "modelscope": "https://api-inference.modelscope.cn/v1/chat/completions",
    "nano-gpt": "https://nano-gpt.com/api/v1/chat/completions",
    "novita": "https://api.novita.ai/openai/v1/chat/completions",
    "opencode": "https://opencode.ai/zen/v1/chat/completions",
    "opencode-anthropic": "https://opencode.ai/zen/v1/messages",
    "opencode-responses": "https://opencode.ai/zen/v1/responses",
    "ovhcloud": "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1/chat/completions",
    "poe": "https://api.poe.com/v1/chat/completions",
    "requesty": "https://router.requesty.ai/v1/chat/completions",
    "scaleway": "https://api.scaleway.ai/v1/chat/completions",
    "siliconflow": "https://api.siliconflow.com/v1/chat/completions",
    "snowflake": "https://org-account.snowflakecomputing.com/api/v2/cortex/v1/chat/completions",
    "stepfun": "https://api.stepfun.com/v1/chat/completions",
    "synthetic": "https://api.synthetic.new/openai/v1/chat/completions",
    "tencent": "https://tokenhub-intl.tencentcloudmaas.com/v1/chat/completions",
    "upstage": "https://api.upstage.ai/v1/solar/chat/completions",
    "volcengine": "https://ark.cn-beijing.volces.com/api/v3/chat/completions",
    "wandb": "https://api.inference.wandb.ai/v1/chat/completions",
    "xiaomi": "https://api.xiaomimimo.com/v1/chat/completions",
}
OWN_HEADER = {
    "anthropic": "x-api-key",
    "azure": "api-key",
    "azure-chat": "api-key",
    "azure-responses": "api-key",
    **dict.fromkeys(("aws-anthropic", "foundry-anthropic", "kimi-coding", "minimax-anthropic"), "x-api-key"),
    **dict.fromkeys(("google", "google-interactions", "vertex", "vertex-anthropic"), "x-goog-api-key"),
}


def needs_project(provider: Provider) -> bool:
    return provider.name == "vertex-anthropic"


def prepared(provider: Provider, *, env: dict[str, str], base_url: str | None = None) -> HttpRequest:
    env = {**PLACES, **env}
    if not provider.base_url and base_url is None and not any(env.get(v) for v in provider.base_url_env):
        base_url = ENVIRONMENT["DATABRICKS_HOST"] if provider.name == "databricks" else AZURE
    request = Request(model="some-model", messages=(Message.user("Hi"),))
    if needs_project(provider):
        env = {"ANTHROPIC_VERTEX_PROJECT_ID": "p1", **env}
    http = provider.dialect.encode(request, provider=provider.name).http
    return provider.prepare(http, model=request.model, base_url=base_url, env=env)


@for_each(*NAMES)
def test_the_name_is_the_modules(name: str) -> None:
    provider = find_provider(name)
    assert provider.name == name
    assert provider.title


@for_each(*VENDORS)
def test_address_is_https_unless_local(name: str) -> None:
    provider = find_provider(name)
    assert provider.base_url.startswith("https://") or is_local(provider.base_url) or provider.base_url_env
    assert provider.base_url_env
    if provider.base_url and is_local(provider.base_url):
        assert not provider.key_required


@for_each(*VENDORS)
def test_missing_key_names_its_variables(name: str) -> None:
    provider = find_provider(name)
    assert provider.key_env
    if not provider.key_required:
        assert provider.key(None, {}) is None
        return
    with pytest.raises(MissingKey) as caught:
        provider.key(None, {})
    assert all(variable in str(caught.value) for variable in provider.key_env)


def section_of(name: str) -> str:
    """The rows and notes of a provider on the page of all."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| [`{name}`]")]
    notes = PAGE.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    return "\n".join([*rows, notes])


@for_each(*VENDORS)
def test_the_notes_name_a_dated_source(name: str) -> None:
    notes = provider_notes(name)
    assert re.search(r"<https://[^>]+>\s+\(seen 20\d\d-\d\d\)", notes)
    assert find_provider(name).docs in notes


@for_each(*VENDORS)
def test_page_lists_all_provider_names(name: str) -> None:
    provider = find_provider(name)
    text = section_of(name)
    assert provider.docs in text
    assert f"`{name}`" in text
    assert all(variable in text for variable in (*provider.key_env, *provider.token_env))
    assert all(alias in text for alias in provider.aliases)


def test_every_vendor_url_is_listed_here() -> None:
    assert sorted(URLS) == sorted(VENDORS)


@for_each(*VENDORS)
def test_request_has_the_right_url_and_key(name: str) -> None:
    provider = find_provider(name)
    http = prepared(provider, env={provider.key_env[0]: KEY})
    assert http.url == URLS[name]
    assert http.method == "POST"
    header = OWN_HEADER.get(name, "authorization")
    assert http.headers[header] == (KEY if name in OWN_HEADER else f"Bearer {KEY}")
    assert KEY not in repr(http)
    assert KEY not in http.body.decode() + http.url
    assert http.json().get("model", "some-model") == "some-model"
    assert "some-model" in http.url + http.body.decode()


@for_each(*VENDORS)
def test_the_first_key_set_wins(name: str) -> None:
    provider = find_provider(name)
    env = {variable: f"key-of-{variable}" for variable in (*provider.key_env, *provider.token_env)}
    assert provider.key(None, env) == f"key-of-{provider.key_env[0]}"
    assert provider.key("mine", env) == "mine"
    for variable in (*provider.key_env, *provider.token_env):
        assert provider.key(None, {variable: "k"}) == "k"


@for_each(*VENDORS)
def test_callers_address_outranks_others(name: str) -> None:
    """The caller's, then the environment's, then the default."""
    provider = find_provider(name)
    for variable in provider.base_url_env:
        env = {provider.key_env[0]: KEY, variable: "https://env.example/v9"}
        assert prepared(provider, env=env).url.startswith("https://env.example/v9/")
        http = prepared(provider, env=env, base_url="https://mine.example/v9")
        assert http.url.startswith("https://mine.example/v9/")


@for_each(*VENDORS)
def test_wrong_address_does_not_show_the_key(name: str) -> None:
    provider = find_provider(name)
    with pytest.raises(LLMStreamError) as caught:
        prepared(provider, env={provider.key_env[0]: KEY}, base_url="ftp://x y")
    assert KEY not in repr(caught.value) + str(caught.value)


@for_each(*VENDORS)
def test_a_refused_key_names_its_variable(name: str) -> None:
    provider = find_provider(name)
    error = provider.decode_error(401, {}, b'{"error": {"message": "no"}}')
    assert f"Check {provider.key_env[0]}" in str(error)


@for_each(*VENDORS)
def test_other_variables_do_not_change_url(name: str) -> None:
    provider = find_provider(name)
    others = {"HTTP_PROXY": "http://p.example", "OPENAI_ORGANIZATION": "o", "HOST": "h.example"}
    assert prepared(provider, env={provider.key_env[0]: KEY, **others}).url == URLS[name]
