"""The paths that vendors have, so that a wrong `base_url` fails here as it fails there."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_known_path", "usual_path"]

_OPENAI: Final = "|".join(
    (
        "/v1",
        "/(api|engines|inference|serverless|zen|compatible-mode|openai)/v1",
        "/v1/(openai|solar)",
        "/v1beta/openai",
        "/api/(v3|paas/v4|v2/cortex/v1)",
        "/openai/deployments/[^/]+",
        "/client/v4/accounts/[^/]+/ai/v1",
        "/v1(beta1)?/projects/[^/]+/locations/[^/]+/endpoints/openapi",
        "/serving-endpoints",
    )
)
"""Where OpenAI's paths begin: at OpenAI, on Azure, and at the vendors that imitate it."""

_ANTHROPIC: Final = "(/(api/)?anthropic|/coding|/zen)?/v1"
_GOOGLE: Final = "/v1(beta|alpha|beta1)?(/projects/[^/]+/locations/[^/]+)?(/publishers/[^/]+)?"

_KNOWN: Final = re.compile(
    "|".join(
        (
            rf"({_OPENAI})/(chat/completions|responses(/.*)?|models(/[^/]+)?)",
            rf"{_ANTHROPIC}/(messages(/count_tokens)?|models(/[^/]+)?)",
            rf"{_GOOGLE}/((models|tunedModels|endpoints)(/[^/]+)?|interactions(/[^/]+)?)",
            "/model/[^/]+/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)",
            "/v2/chat|/v1/models(/[^/]+)?",
            "/api/(chat|show|tags|version)",
            "",
        )
    )
)

_USUAL: Final = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/MODEL:streamGenerateContent",
    "gemini-interactions": "/v1beta/interactions",
    "bedrock-converse": "/model/MODEL/converse-stream",
    "cohere": "/v2/chat",
    "mistral": "/mistral/v1/chat/completions",
    "ollama": "/api/chat",
}


def is_known_path(url: str) -> bool:
    """Whether some vendor has a path; the name of a dialect may stand before it."""
    path = url.partition("?")[0].rstrip("/")
    first, _, rest = path[1:].partition("/")
    return _KNOWN.fullmatch(f"/{rest}" if first in _USUAL else path) is not None


def usual_path(dialect: str) -> str | None:
    """Where the simulator serves a dialect."""
    return _USUAL.get(dialect)
