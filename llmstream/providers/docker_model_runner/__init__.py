"""Docker runs models on one's own machine, by llama.cpp or vLLM."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

DOCKER_MODEL_RUNNER = Provider(
    name="docker-model-runner",
    title="Docker Model Runner",
    dialect=OpenAIChat(
        hosted(
            # By default the server is llama.cpp's, which takes thoughts back (seen 2026-11).
            echo="all",
        )
    ),
    base_url="http://localhost:12434/engines/v1",
    base_url_env=("DOCKER_MODEL_RUNNER_BASE_URL", "DOCKER_MODEL_RUNNER_API_BASE"),
    key_env=("DOCKER_MODEL_RUNNER_API_KEY",),
    key_required=False,
    aliases=("docker", "dmr"),
    docs="https://docs.docker.com/ai/model-runner/api-reference/",
    hint="Is Docker Model Runner enabled? `docker desktop enable model-runner --tcp 12434` does it.",
    notes="a server of one's own; in a container `http://model-runner.docker.internal/engines/v1`",
)
"""Docker runs models on one's own machine, by llama.cpp or vLLM."""
