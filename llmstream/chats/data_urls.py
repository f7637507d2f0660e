"""Files within dicts of messages: data URLs, in both directions."""

from __future__ import annotations

import base64
import binascii

from llmstream.errors import InvalidRequest

__all__ = ["data_url", "read_base64", "read_data_url"]


def data_url(data: bytes, media_type: str) -> str:
    """The bytes as a data URL."""
    return f"data:{media_type or 'application/octet-stream'};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str, where: str) -> tuple[str, bytes]:
    """Media type and bytes of a data URL.

    where:  the place of the file, for the error
    raises: InvalidRequest where it holds no base64
    """
    head, _, data = url[5:].partition(",")
    return head.partition(";")[0], read_base64(data, where)


def read_base64(data: str, where: str) -> bytes:
    """The bytes of a base64 text.

    raises: InvalidRequest
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{where} holds no base64") from None
