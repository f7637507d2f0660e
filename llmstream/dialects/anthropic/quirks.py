"""Differences between the servers of the Messages API, as data."""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import quote, unquote

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.model_rules.claude import ClaudeRules

__all__ = ["BEDROCK_INVOKE_QUIRKS", "VERTEX_QUIRKS", "Quirks"]


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Differences from api.anthropic.com.

    path:               relative to the provider's base URL; `{model}` is replaced by the model's name,
                        which is then not in the body
    version:            of the API, in the header `anthropic-version`
    body_version:       of the API, in the body instead of the header
    betas_in_body:      beta features go to the field `anthropic_beta` instead of the header
    stream_field:       the body has `stream: true`
    url_sources:        images and documents can be sent as URL or file id
    system_turns:       models that support them get later system messages in place, which preserves the
                        cached prompt; otherwise these move to the top
    unsigned_thinking:  how reasoning without a signature is sent, such as another vendor's
    schemas:            which models support a schema: Anthropic's list, Bedrock's shorter one, or
                        "forced-tools-first", where a forced tool replaces the schema if the model
                        supports one
    default_max_tokens: if the request sets none; None depends on the model, see `model_rules/claude.py`
    """

    path: str = "/v1/messages"
    version: str = "2023-06-01"
    body_version: str | None = None
    betas_in_body: bool = False
    stream_field: bool = True
    url_sources: bool = True
    system_turns: bool = True
    unsigned_thinking: Literal["drop", "text", "keep"] = "drop"
    schemas: Literal["anthropic", "bedrock", "forced-tools-first"] = "anthropic"
    default_max_tokens: int | None = None

    def holds_to_schemas(self, rules: ClaudeRules) -> bool:
        """Whether a model supports a schema on this server."""
        if self.schemas == "forced-tools-first":
            return rules.schemas and not rules.forced_tools
        return rules.bedrock_schemas if self.schemas == "bedrock" else rules.schemas

    @property
    def model_in_path(self) -> bool:
        """Whether the path contains the model's name."""
        return "{model}" in self.path

    def path_for(self, model: str) -> str:
        """Returns the path of a request to a model."""
        try:
            return self.path.replace("{model}", quote(model, safe="@.-_~"))
        except UnicodeEncodeError:
            raise InvalidRequest(f"{model!r} cannot be the name of a model") from None

    def model_of(self, url: str) -> str | None:
        """Returns the model in a URL: "" if it is in the body; None for another path."""
        pattern = re.escape(self.path).replace(re.escape("{model}"), "(?P<model>[^/]+?)")
        match = re.search(pattern + "/?$", url.split("?", 1)[0].split("#", 1)[0])
        if match is None:
            return None
        return unquote(match.group("model")) if self.model_in_path else ""


# source: Amazon Bedrock user guide, Anthropic Claude Messages API
BEDROCK_INVOKE_QUIRKS: Final = Quirks(
    path="/model/{model}/invoke-with-response-stream",
    body_version="bedrock-2023-05-31",
    betas_in_body=True,
    stream_field=False,
    url_sources=False,
    schemas="bedrock",
    system_turns=False,
)

# The base URL ends in `/projects/{p}/locations/{l}/publishers/anthropic`.
#
# Schemas are rejected there unless the organisation's policy allows them, and always by models before 4.6
# (2026-11). `mode="json_schema"` sends them anyway; so do requests to models that reject a forced tool and
# have no other way (@ai-sdk/anthropic 4.0.94).
# source: "Claude on Vertex AI" in Anthropic's documents; "Structured outputs with Anthropic Claude models" in
# Google's
VERTEX_QUIRKS: Final = Quirks(
    path="/models/{model}:streamRawPredict",
    body_version="vertex-2023-10-16",
    schemas="forced-tools-first",
    system_turns=False,
)
