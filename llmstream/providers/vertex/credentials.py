"""Google's application default credentials, by google-auth and away from the event loop."""

from __future__ import annotations

import asyncio
import importlib
import threading
from typing import Any, Final

from llmstream.errors import AuthenticationError, Unsupported

__all__ = ["access_token", "known_token"]

_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
# Two threads would fetch a token each.
_lock = threading.Lock()
_credentials: list[Any] = []


async def access_token() -> str:
    """A token that is valid now.

    raises: Unsupported without google-auth, AuthenticationError where no credentials are found
    """
    return await asyncio.to_thread(_fresh)


def known_token() -> str:
    """The token fetched last; "" before the first."""
    return str(_credentials[0].token or "") if _credentials else ""


def _fresh() -> str:
    try:
        auth = importlib.import_module("google.auth")
        requests = importlib.import_module("google.auth.transport.requests")
    except ImportError:
        raise Unsupported(
            "No key for vertex, and google-auth is not installed to find other credentials. Set "
            "GOOGLE_VERTEX_API_KEY, pass api_key=, or pip install 'llmstream-sdk[vertex]'."
        ) from None
    with _lock:
        try:
            if not _credentials:
                _credentials.append(auth.default(scopes=_SCOPES)[0])
            # Becomes false some minutes before the token ends.
            if not _credentials[0].valid:
                _credentials[0].refresh(requests.Request())
        # google-auth raises errors of several packages, as does its transport.
        except Exception as error:
            reason = str(error).rstrip(".")
            raise AuthenticationError(
                f"no credentials of Google Cloud: {reason}. Run `gcloud auth application-default login`, "
                "set GOOGLE_APPLICATION_CREDENTIALS, or pass api_key=.",
                provider="vertex",
            ) from None
    return known_token()
