from __future__ import annotations

import pytest

from llmstream.providers.groq import GROQ


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("https://api.groq.com", "https://api.groq.com/openai/v1"),
        ("https://api.groq.com/", "https://api.groq.com/openai/v1"),
        ("api.groq.com", "https://api.groq.com/openai/v1"),
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1"),
        ("https://gate.example/groq", "https://gate.example/groq"),
    ],
)
def test_path_is_optional_as_in_the_groq_sdk(written: str, address: str) -> None:
    assert GROQ.address(None, {"GROQ_BASE_URL": written}) == address
