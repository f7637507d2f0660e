"""A file whose base64 comes in pieces: decoded as it comes, so that it is held once."""

from __future__ import annotations

import base64

__all__ = ["Base64Pieces"]


class Base64Pieces:
    """Text in, bytes out at the end. Vendors encode each piece for itself, or cut one text anywhere.

    size: bytes that are held
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._rest = ""
        self._error: ValueError | None = None

    def __bool__(self) -> bool:
        return self.size > 0 or self._error is not None

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return len(self._data) + len(self._rest)

    def add(self, piece: str) -> None:
        """A piece; one that is no base64 makes the whole none."""
        if self._error is not None:
            return
        text = self._rest + piece if self._rest else piece
        end = len(text) - len(text) % 4
        try:
            self._data += base64.b64decode(text[:end], validate=True)
        except ValueError as error:
            self._error = error
        self._rest = text[end:]

    def whole(self) -> bytes:
        """The file.

        raises: ValueError where it was no base64
        """
        if self._error is not None:
            raise self._error
        return bytes(self._data) + base64.b64decode(self._rest, validate=True)
