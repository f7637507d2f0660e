"""Sends a request once more without a hint that its model refused, and remembers that for the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from llmstream.dialects.base import Dialect, Encoded
from llmstream.errors import BadRequest, LLMStreamError
from llmstream.events import UnsupportedSetting, Warning
from llmstream.exchange import HttpRequest

if TYPE_CHECKING:
    from llmstream.dialects.adapting import Refused

__all__ = ["Adapter", "Repairs", "forget"]

Key: TypeAlias = tuple[str, str | None, str]
"""Provider, address and model."""

_MOST_MODELS: Final = 1024
_remembered: dict[Key, list[Refused]] = {}


@runtime_checkable
class Repairs(Protocol):
    """The optional part of a dialect that knows how to change a request so that it is not refused again."""

    def repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        """The request as the vendor would take it; None where the error is about something else."""
        ...


class Adapter:
    """Fits the requests of one call to what its model has refused."""

    def __init__(self, key: Key, dialect: Dialect) -> None:
        self._key = key
        self._dialect = dialect
        self._sent: HttpRequest | None = None
        self._learned: list[Refused] = []
        self._said: dict[tuple[str, ...], str] = {}
        self._repairs: LLMStreamError | None = None

    def fit(self, encoded: Encoded) -> Encoded:
        """The request without what the model refuses, with a warning for each field."""
        known = [*_remembered.get(self._key, ()), *self._learned]
        if known:
            encoded = self._without(encoded, known)
        if self._repairs is not None:
            encoded = Encoded(self._repaired(encoded.http, self._repairs) or encoded.http, encoded.warnings)
        self._sent = encoded.http
        return encoded

    def learn(self, error: LLMStreamError) -> bool:
        """Whether the request is to be sent once more: the error refuses a hint that was in it."""
        if self._sent is None or not isinstance(error, BadRequest):
            return False
        if self._repairs is None and self._repaired(self._sent, error) is not None:
            self._repairs = error
            return True
        from llmstream.dialects.adapting import refused_hint  # loaded by those who are refused

        refused = refused_hint(error, self._sent)
        if refused is None:
            return False
        self._learned.append(refused)
        self._said[refused.path] = error.message
        return True

    def confirm(self) -> None:
        """The model has answered: what it refused before is left out of later requests too."""
        if not self._learned:
            return
        if len(_remembered) >= _MOST_MODELS:
            _remembered.clear()
        known = _remembered.setdefault(self._key, [])
        known += [refused for refused in self._learned if refused not in known]

    def _without(self, encoded: Encoded, known: list[Refused]) -> Encoded:
        from llmstream.dialects.adapting import without_hints

        http, gone = without_hints(encoded.http, known)
        return Encoded(http, [*encoded.warnings, *map(self._warning, gone)])

    def _repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        return self._dialect.repaired(http, error) if isinstance(self._dialect, Repairs) else None

    def _warning(self, refused: Refused) -> Warning:
        said = self._said.get(refused.path)
        details = "this model has refused it before" if said is None else f"the model refused it: {said}"
        return UnsupportedSetting(refused.hint, details)


def forget() -> None:
    """Forgets what models have refused; for tests."""
    _remembered.clear()
