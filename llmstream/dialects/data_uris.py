"""Files inside a URL: `data:image/png;base64,...`, in both directions."""

from __future__ import annotations

import base64
import binascii

__all__ = ["data_uri", "read_data_uri"]


def data_uri(data: bytes, media_type: str) -> str:
    """The URL that holds a file."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def read_data_uri(url: str) -> tuple[str, bytes] | None:
    """Media type ("" where it is not said) and content; None where it is no such URL.

    raises: ValueError where the content is not base64
    """
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    try:
        return head.partition(";")[0], base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"a data URL holds no base64: {error}") from None
