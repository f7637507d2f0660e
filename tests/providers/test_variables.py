"""Variables that people have set for other programs, and the addresses that they hold."""

from __future__ import annotations

import pytest

from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.registry import find_provider
from llmstream.request import Request, ToolSpec

CHAT = HttpRequest("/chat/completions", b"{}")


def url(name: str, **env: str) -> str:
    return find_provider(name).prepare(CHAT, model="m", api_key="k", env=env).url


@pytest.mark.parametrize(
    ("name", "variable", "value", "base"),
    [
        # As the vendors' own SDKs read them: a path is added to what stands there.
        ("cerebras", "CEREBRAS_BASE_URL", "https://api.cerebras.ai", "https://api.cerebras.ai/v1"),
        ("cerebras", "CEREBRAS_BASE_URL", "https://gw.example/cerebras/", "https://gw.example/cerebras/v1"),
        ("cerebras", "CEREBRAS_API_BASE", "https://api.cerebras.ai/v1", "https://api.cerebras.ai/v1"),
        ("together", "TOGETHER_BASE_URL", "https://api.together.ai", "https://api.together.ai/v1"),
        ("together", "TOGETHER_AI_API_BASE", "https://api.together.xyz/v1", "https://api.together.xyz/v1"),
        (
            "fireworks",
            "FIREWORKS_BASE_URL",
            "https://api.fireworks.ai/inference",
            "https://api.fireworks.ai/inference/v1",
        ),
        (
            "fireworks",
            "FIREWORKS_BASE_URL",
            "https://api.fireworks.ai",
            "https://api.fireworks.ai/inference/v1",
        ),
        ("fireworks", "FIREWORKS_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("groq", "GROQ_BASE_URL", "https://api.groq.com", "https://api.groq.com/openai/v1"),
        ("groq", "GROQ_API_BASE", "https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1"),
        ("nvidia", "NVIDIA_BASE_URL", "https://proxy.example/nim", "https://proxy.example/nim/v1"),
        ("nvidia", "NVIDIA_NIM_API_BASE", "http://gpu-box:8000/v1/", "http://gpu-box:8000/v1"),
        # Servers of one's own, often written as a host alone.
        ("vllm", "VLLM_BASE_URL", "http://gpu-box:8000", "http://gpu-box:8000/v1"),
        ("vllm", "HOSTED_VLLM_API_BASE", "gpu-box:8000", "http://gpu-box:8000/v1"),
        ("vllm", "VLLM_API_BASE", "https://gw.example/llm", "https://gw.example/llm"),
        ("sglang", "SGLANG_BASE_URL", "localhost:30000/", "http://localhost:30000/v1"),
        ("llamacpp", "LLAMACPP_BASE_URL", "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("lmstudio", "LM_STUDIO_API_BASE", "localhost:1234", "http://localhost:1234/v1"),
        ("ollama-openai", "OLLAMA_API_BASE", "http://localhost:11434", "http://localhost:11434/v1"),
        # LiteLLM's and others' names for the same.
        ("xai", "XAI_API_BASE", "https://api.x.ai/v1", "https://api.x.ai/v1"),
        ("deepseek", "DEEPSEEK_API_BASE", "https://api.deepseek.com/beta", "https://api.deepseek.com/beta"),
        ("sambanova", "SAMBANOVA_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("moonshot", "MOONSHOT_API_BASE", "https://api.moonshot.cn/v1", "https://api.moonshot.cn/v1"),
        ("zai", "ZAI_API_BASE", "https://gw.example/v4", "https://gw.example/v4"),
        ("bigmodel", "BIGMODEL_API_BASE", "https://gw.example/v4", "https://gw.example/v4"),
        ("qwen", "DASHSCOPE_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("deepinfra", "DEEPINFRA_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("nebius", "NEBIUS_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("inception", "INCEPTION_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("baseten", "BASETEN_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("vercel-gateway", "VERCEL_AI_GATEWAY_API_BASE", "https://gw.example/v1", "https://gw.example/v1"),
        ("azure", "AZURE_RESOURCE_NAME", "my-resource", "https://my-resource.openai.azure.com/openai/v1"),
    ],
)
def test_a_variables_address_is_understood(name: str, variable: str, value: str, base: str) -> None:
    assert url(name, **{variable: value}) == f"{base}/chat/completions"


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("vercel-gateway", "VERCEL_AI_GATEWAY_API_KEY"),
        ("vercel-gateway", "VERCEL_API_KEY"),
        ("huggingface", "HUGGINGFACEHUB_API_TOKEN"),
        ("deepinfra", "DEEPINFRA_API_TOKEN"),
        ("openrouter", "OR_API_KEY"),
        ("together", "TOGETHERAI_API_KEY"),
        ("together", "TOGETHER_AI_TOKEN"),
        ("fireworks", "FIREWORKS_AI_TOKEN"),
        ("vllm", "HOSTED_VLLM_API_KEY"),
        ("qwen", "QWENCLOUD_API_KEY"),
        ("nvidia", "NIM_API_KEY"),
        ("bigmodel", "ZHIPU_API_KEY"),
        ("bigmodel", "ZHIPUAI_API_KEY"),
    ],
)
def test_other_programs_key_names_are_read(name: str, variable: str) -> None:
    assert find_provider(name).key(None, {variable: "k"}) == "k"


def test_china_keys_do_not_go_elsewhere() -> None:
    provider = find_provider("zai")
    assert not {"ZHIPU_API_KEY", "ZHIPUAI_API_KEY", "BIGMODEL_API_KEY"} & set(provider.key_env)


def test_copilot_is_told_which_program_asks() -> None:
    def headers(**env: str) -> dict[str, str]:
        return find_provider("copilot").prepare(CHAT, model="m", api_key="k", env=env).headers

    assert headers()["copilot-integration-id"] == "vscode-chat"
    assert "editor-version" in headers()
    assert headers(GITHUB_COPILOT_INTEGRATION_ID="mine")["copilot-integration-id"] == "mine"


MESSAGES = HttpRequest("/models/m:streamRawPredict", b"{}")


def vertex(name: str, **env: str) -> str:
    return find_provider(name).prepare(MESSAGES, model="m", api_key="k", env=env).url


@pytest.mark.parametrize(
    ("name", "base", "url"),
    [
        (
            "vertex-anthropic",
            "https://gw.example/v1",
            "https://gw.example/v1/projects/p/locations/us-east5/publishers/anthropic",
        ),
        (
            "vertex-anthropic",
            "https://gw.example/v1/projects/q/locations/l/publishers/anthropic",
            "https://gw.example/v1/projects/q/locations/l/publishers/anthropic",
        ),
        (
            "vertex",
            "https://gw.example",
            "https://gw.example/v1/projects/p/locations/us-east5/publishers/google",
        ),
        (
            "vertex",
            "gw.example/v1beta1/",
            "https://gw.example/v1beta1/projects/p/locations/us-east5/publishers/google",
        ),
        (
            "vertex",
            "https://gw.example/v1/projects/q/locations/l/publishers/google",
            "https://gw.example/v1/projects/q/locations/l/publishers/google",
        ),
    ],
)
def test_vertex_adds_a_missing_project(name: str, base: str, url: str) -> None:
    variable = find_provider(name).base_url_env[0]
    env = {variable: base, "GOOGLE_CLOUD_PROJECT": "p", "CLOUD_ML_REGION": "us-east5"}
    assert vertex(name, **env) == f"{url}/models/m:streamRawPredict"


def test_vertex_reads_other_project_names() -> None:
    assert "/projects/p/locations/global/" in vertex("vertex", VERTEXAI_PROJECT="p")
    both = {"ANTHROPIC_VERTEX_PROJECT_ID": "claudes", "GOOGLE_CLOUD_PROJECT": "others"}
    assert "/projects/claudes/" in vertex("vertex-anthropic", **both)
    assert "/projects/others/" in vertex("vertex", **both)
    located = vertex("vertex", VERTEXAI_PROJECT="p", VERTEXAI_LOCATION="europe-west4")
    assert located.startswith("https://europe-west4-aiplatform.googleapis.com/v1/projects/p/")


def test_claude_on_vertex_names_project_vars() -> None:
    with pytest.raises(InvalidRequest, match=r"ANTHROPIC_VERTEX_PROJECT_ID or GOOGLE_CLOUD_PROJECT"):
        vertex("vertex-anthropic")


@pytest.mark.parametrize(
    ("base", "env", "url"),
    [
        ("https://r.services.ai.azure.com/models", {}, "?api-version=2024-05-01-preview"),
        (
            "https://r.services.ai.azure.com/models",
            {"AZURE_API_VERSION": "2025-04-01-preview"},
            "?api-version=2025-04-01-preview",
        ),
        (
            "https://r.services.ai.azure.com/models?api-version=2024-06-01",
            {"OPENAI_API_VERSION": "2025-01-01"},
            "?api-version=2024-06-01",
        ),
        (
            "https://m.eastus.models.ai.azure.com/v1",
            {"OPENAI_API_VERSION": "2024-10-21"},
            "",
        ),
    ],
)
def test_foundry_models_have_a_version(base: str, env: dict[str, str], url: str) -> None:
    """Deployments of a single model have none."""
    found = find_provider("azure").prepare(CHAT, model="m", api_key="k", base_url=base, env=env).url
    assert found == f"{base.partition('?')[0]}/chat/completions{url}"


def test_a_single_model_on_azure_is_below_v1() -> None:
    base = "https://m.eastus.models.ai.azure.com"
    found = find_provider("azure").prepare(
        CHAT, model="m", api_key="k", base_url=base, env={"OPENAI_API_VERSION": "2024-10-21"}
    )
    assert found.url == f"{base}/v1/chat/completions"


def test_single_azure_model_uses_chat() -> None:
    azure = find_provider("azure")
    tool = ToolSpec("look", "Looks it up.", {"type": "object", "properties": {}})
    request = Request(model="gpt-6-astra", messages=(Message.user("Hi"),), tools=(tool,))
    assert azure.wire is not None
    for address, name in (
        ("https://m.eastus.models.ai.azure.com", "openai-chat"),
        ("https://r.openai.azure.com", "openai-responses"),
    ):
        wire = azure.wire(request, lambda address=address: address)
        assert wire is not None
        assert wire.dialect.name == name
