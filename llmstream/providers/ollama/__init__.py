"""Models on your own machine, or in Ollama's cloud, over Ollama's native API. The same server also speaks
Chat Completions: see `ollama-openai`.

- The cloud is `https://ollama.com`, which needs the key; a local daemon needs none.
- `OLLAMA_HOST` is read as the daemon reads it: the scheme may be missing, the port may be missing, so may
  the host (`:8080`); `0.0.0.0`, where a daemon listens, means this machine.
- The answer is one JSON object a line, not SSE. The first line may take as long as loading the model.
- A prompt longer than the context (`options.num_ctx`, small by default) is cut without notice; raise it by
  `provider_options={"ollama": {"options": {"num_ctx": 32768}}}`.
- There is no `tool_choice`. Arguments are objects on the wire, and old daemons give calls no id.
- `think` for a model that cannot think is a 400. Some models leave `<think>` tags in the text.
- The cloud ignores schemas (ollama/ollama#12362).

Sources:

- <https://docs.ollama.com/api> (seen 2026-11)
- <https://docs.ollama.com/cloud> (seen 2026-11)
"""

from llmstream.dialects.ollama import Ollama
from llmstream.providers.base import Provider
from llmstream.providers.ollama.host import ollama_address


def _native(written: str) -> str:
    """Programs for its Chat Completions have the address with /v1; the daemon is the same."""
    return ollama_address(written).removesuffix("/v1")


OLLAMA = Provider(
    name="ollama",
    title="Ollama",
    dialect=Ollama(),
    base_url="http://localhost:11434",
    base_url_env=("OLLAMA_HOST", "OLLAMA_BASE_URL", "OLLAMA_API_BASE"),
    normalize=_native,
    key_env=("OLLAMA_API_KEY",),
    key_required=False,
    docs="https://docs.ollama.com/api",
    hint="Is Ollama running? `ollama serve` starts it.",
    notes='local without a key; in the cloud `base_url="https://ollama.com"` with one',
)
