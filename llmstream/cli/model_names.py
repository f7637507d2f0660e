"""Checks model names of the form "provider:model"."""

from __future__ import annotations

from llmstream.errors import InvalidRequest
from llmstream.providers.likely_models import did_you_mean, likely_models
from llmstream.providers.registry import find_provider

__all__ = ["checked_model"]


def checked_model(spec: str) -> str:
    """Returns the name if it has a known provider and a model.

    raises: InvalidRequest that suggests likely names
    """
    name, colon, model = spec.partition(":")
    if name and colon and model.strip():
        try:
            find_provider(name)
        except InvalidRequest as error:
            found = likely_models(spec)
            if not found:
                raise
            raise InvalidRequest(
                f"unknown provider {name!r}. {did_you_mean(found)}`llmstream providers` lists all."
            ) from error
        return spec
    found = likely_models(spec)
    example = "" if found else ", such as openai:gpt-5-mini"
    raise InvalidRequest(
        f"{spec!r} does not name a provider. {did_you_mean(found)}Write provider:model{example}; "
        "`llmstream providers` lists the providers."
    )
