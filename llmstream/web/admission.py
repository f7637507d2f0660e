"""How the page is served: admission by token, Host and Origin headers; its files, and their headers."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from llmstream.server_side.local_only import host_is_local, is_foreign_page

__all__ = ["PAGE", "PAGE_HEADERS", "refusal"]

_SCHEME: Final = "bearer"


def refusal(
    headers: Mapping[str, str], *, token: str | None, local: bool, command: str = "llmstream web"
) -> tuple[int, str] | None:
    """Why a request is refused, as a status and a message; None admits it.

    A page of another site cannot read the token, which is in no cookie, so that it cannot send a request by
    this browser; a name that it points at this machine fails on its Host header.

    token:   the token that an API request must have; None for the files of the page, which hold no secret
    local:   whether the server listens on this machine alone
    command: that prints the address
    """
    host = headers.get("host")
    if local and (not host_is_local(host) or is_foreign_page(headers)):
        return 403, "This server only serves pages of this machine."
    if not local and not _same_origin(headers):
        return 403, "This server only serves its own page."
    if token is not None and not _has_token(headers, token):
        return 401, f"The token is missing or not valid. Open the address that `{command}` printed."
    return None


def _same_origin(headers: Mapping[str, str]) -> bool:
    origin = headers.get("origin")
    if origin is None:
        # Browsers leave Origin out of a plain GET, and other programs out of all requests.
        return headers.get("sec-fetch-site", "").lower() != "cross-site"
    return urlsplit(origin).netloc.lower() == (headers.get("host") or "").lower()


def _has_token(headers: Mapping[str, str], token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    sent = given.strip().encode("utf-8", "surrogateescape")
    return scheme.lower() == _SCHEME and hmac.compare_digest(sent, token.encode())


PAGE: Final = Path(__file__).parent / "page"
"""Folder of the page: `index.html` and what it loads, by relative addresses. There is no build step."""

PAGE_HEADERS: Final = {
    # Nothing but our own files: no script in the page, no foreign host, no frame around it. What a model
    # writes is shown as text, so this is the second line of defence.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # The files have no version in their names: a browser revalidates them.
    "cache-control": "no-cache",
}
"""Headers for each file of the page."""
