"""Docker runs models on your own machine, by llama.cpp or vLLM.

- In a container the address is `http://model-runner.docker.internal/engines/v1`, on Docker Engine
  `http://172.17.0.1:12434/engines/v1`. `/engines/llama.cpp/v1` picks an engine.
- Docker Desktop must be configured to listen: `docker desktop enable model-runner --tcp 12434`. litellm has
  the port 22088.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.docker.com/ai/model-runner/api-reference/> (seen 2026-11)
- <https://docs.docker.com/reference/cli/docker/desktop/enable/model-runner/> (seen 2026-11): the port
"""

from llmstream.dialects.openai_chat import OpenAIChat, ReasoningQuirks, change, hosted
from llmstream.providers.base import Provider

DOCKER_MODEL_RUNNER = Provider(
    name="docker-model-runner",
    title="Docker Model Runner",
    dialect=OpenAIChat(
        hosted(
            change(
                ReasoningQuirks,
                # By default the server is llama.cpp's, which takes thoughts back (seen 2026-11).
                echo="all",
            )
        )
    ),
    base_url="http://localhost:12434/engines/v1",
    base_url_env=("DOCKER_MODEL_RUNNER_BASE_URL", "DOCKER_MODEL_RUNNER_API_BASE"),
    key_env=("DOCKER_MODEL_RUNNER_API_KEY",),
    key_required=False,
    aliases=("docker", "dmr"),
    docs="https://docs.docker.com/ai/model-runner/api-reference/",
    hint="Is Docker Model Runner enabled? `docker desktop enable model-runner --tcp 12434` does it.",
    notes="a server of your own; in a container `http://model-runner.docker.internal/engines/v1`",
)
