"""How the places that serve the Messages API differ, as data."""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import quote, unquote

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.model_rules.claude import ClaudeRules

__all__ = ["BEDROCK_INVOKE_QUIRKS", "VERTEX_QUIRKS", "Quirks"]


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """What one server wants otherwise than api.anthropic.com.

    path:               below the provider's address; `{model}` stands for the model's name, which
                        then is left out of the body
    version:            of the API, in the header `anthropic-version`
    body_version:       of the API, in the body instead of the header
    betas_in_body:      beta features go to the field `anthropic_beta` instead of the header
    stream_field:       the body says `stream: true`
    url_sources:        images and documents may be given by URL or file id
    system_turns:       models that know them get later system messages in their places, which keeps
                        the cached prompt; elsewhere these move to the top
    unsigned_thinking:  what becomes of reasoning that carries no signature, such as another vendor's
    schemas:            whose list says which models can be held to a schema: Anthropic's, Bedrock's
                        shorter one, or "forced-tools-first": a forced tool takes the schema's place
                        where the model allows one
    default_max_tokens: where the request sets none; None goes by the model, see `model_rules/claude.py`
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
        """Whether a model can be held to a schema here."""
        if self.schemas == "forced-tools-first":
            return rules.schemas and not rules.forced_tools
        return rules.bedrock_schemas if self.schemas == "bedrock" else rules.schemas

    @property
    def model_in_path(self) -> bool:
        """Whether the model's name stands in the path."""
        return "{model}" in self.path

    def path_for(self, model: str) -> str:
        """The path of a request to a model."""
        try:
            return self.path.replace("{model}", quote(model, safe="@.-_~"))
        except UnicodeEncodeError:
            raise InvalidRequest(f"{model!r} cannot be the name of a model") from None

    def model_of(self, url: str) -> str | None:
        """The model that a URL names: "" where the body does; None where the path is another."""
        pattern = re.escape(self.path).replace(re.escape("{model}"), "(?P<model>[^/]+?)")
        match = re.search(pattern + "/?$", url.split("?", 1)[0].split("#", 1)[0])
        if match is None:
            return None
        return unquote(match.group("model")) if self.model_in_path else ""


BEDROCK_INVOKE_QUIRKS: Final = Quirks(
    path="/model/{model}/invoke-with-response-stream",
    body_version="bedrock-2023-05-31",
    betas_in_body=True,
    stream_field=False,
    url_sources=False,
    schemas="bedrock",
    system_turns=False,
)
"""source: Amazon Bedrock user guide, Anthropic Claude Messages API"""

VERTEX_QUIRKS: Final = Quirks(
    path="/models/{model}:streamRawPredict",
    body_version="vertex-2023-10-16",
    schemas="forced-tools-first",
    system_turns=False,
)
"""The address ends in `/projects/{p}/locations/{l}/publishers/anthropic`.

Schemas are refused there unless the organisation's policy allows them, and by models before 4.6 in
any case (2026-11); `mode="json_schema"` asks for them all the same, and so do models that refuse a
forced tool, which have no other way (@ai-sdk/anthropic 4.0.94).
source: "Claude on Vertex AI" in Anthropic's documents; "Structured outputs with Anthropic Claude
models" in Google's
"""
