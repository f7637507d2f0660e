"""Where Google's models are: with the version or, as Google's own SDKs have it, without."""

from __future__ import annotations

import pytest

from llmstream.providers.google import GOOGLE
from llmstream.providers.google_interactions import GOOGLE_INTERACTIONS

USUAL = "https://generativelanguage.googleapis.com/v1beta"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        (None, USUAL),
        ("https://generativelanguage.googleapis.com/", USUAL),
        ("https://generativelanguage.googleapis.com/v1beta/", USUAL),
        ("https://a.example/v1alpha", "https://a.example/v1alpha"),
        ("https://a.example/gemini?team=1", "https://a.example/gemini/v1beta?team=1"),
        ("https://a.example/v1beta/models/m:streamGenerateContent?alt=sse",) * 2,
    ],
)
def test_missing_version_is_added(written: str | None, address: str) -> None:
    assert GOOGLE.address(written, {}) == address
    assert GOOGLE_INTERACTIONS.address(None, {"GOOGLE_GEMINI_BASE_URL": written or ""}) == address
