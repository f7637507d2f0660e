"""The library's errors, as a command reports them."""

from __future__ import annotations

import pytest

from llmstream.cli.errors import error_message
from llmstream.errors import AuthenticationError, BadRequest, InvalidRequest, LLMStreamError
from llmstream.providers.registry import all_providers, find_provider
from llmstream.streams import Model


def raised_by(act) -> LLMStreamError:
    with pytest.raises(LLMStreamError) as raised:
        act()
    return raised.value


@pytest.mark.parametrize("provider", list(all_providers()), ids=lambda provider: provider.name)
def test_remedies_name_no_library_argument(provider):
    errors = [provider.decode_error(401, {}, b"{}")]
    for act in (lambda: provider.key(None, {}), lambda: provider.address(None, {})):
        try:
            act()
        except LLMStreamError as error:
            errors.append(error)
    for error in errors:
        error.provider = provider.name
        text = error_message(error)
        assert "api_key=" not in text
        assert "base_url" not in text
        assert text.count(f"{provider.name}:") <= 1


def test_missing_key_names_variable_once():
    """It names the provider once too."""
    error = raised_by(lambda: find_provider("openai").key(None, {}))
    error.provider = "openai"
    assert error_message(error) == "openai: no API key. Set OPENAI_API_KEY or run llmstream keys set openai."


def test_a_missing_address_names_the_flag():
    error = raised_by(lambda: find_provider("azure").address(None, {}))
    error.provider = "azure"
    text = error_message(error)
    assert text.startswith("azure: no address. Pass --base-url or set AZURE_OPENAI_ENDPOINT")


def test_invalid_address_names_the_flag():
    error = raised_by(lambda: find_provider("openai").address("ftp://x", {}))
    assert "Check --base-url." in error_message(error)


def test_another_server_is_named_by_the_flag():
    text = error_message(raised_by(lambda: Model("nobody:m")))
    assert "openai:MODEL with --base-url." in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidRequest("bedrock: signing takes botocore", provider="bedrock"),
            "bedrock: signing takes botocore",
        ),
        (BadRequest("no such model", provider="openai", status=400), "openai: no such model (HTTP 400)"),
        (AuthenticationError("see openai.com", provider="openai"), "openai: see openai.com"),
        (InvalidRequest("the prompt is empty"), "the prompt is empty"),
    ],
)
def test_a_provider_is_named_once(error, text):
    assert error_message(error) == text
