"""The warnings of one request, in which each is found at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from llmstream.events import OtherWarning, Warning

__all__ = ["RequestWarnings"]


class RequestWarnings(list[Warning]):
    """A list that knows which texts are in it: a long history may give a warning for each of its calls.

    It grows by `append`, `extend` and `+=` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: set[str] = set()

    def append(self, warning: Warning) -> None:
        """One more."""
        super().append(warning)
        if isinstance(warning, OtherWarning):
            self._texts.add(warning.message)

    def extend(self, warnings: Iterable[Warning]) -> None:
        """Several more."""
        for warning in warnings:
            self.append(warning)

    def __iadd__(self, warnings: Iterable[Warning]) -> Self:  # type: ignore[override,misc]  # as extend
        self.extend(warnings)
        return self

    def __contains__(self, warning: object) -> bool:
        if isinstance(warning, OtherWarning):
            return warning.message in self._texts
        return super().__contains__(warning)
