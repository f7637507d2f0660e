"""The digest that binds a person's decision to just the arguments that were shown."""

from __future__ import annotations

import hashlib
import hmac

import msgspec

__all__ = ["digest_of"]

_encode = msgspec.json.Encoder().encode


def digest_of(key: bytes | None, *words: str | bytes) -> str:
    """An HMAC-SHA256 over the words, or without a key a SHA-256, as hexadecimal digits.

    Only the first proves that nobody else has written them.
    """
    data = _encode([w if isinstance(w, str) else hashlib.sha256(w).hexdigest() for w in words])
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()
