"""The paths of the API, and the models they name."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from llmstream.errors import InvalidRequest

__all__ = ["METHOD", "model_of", "path_for"]

METHOD: Final = "streamGenerateContent"

_COLLECTIONS: Final = ("models", "tunedModels", "endpoints")
_PATH: Final = re.compile(
    rf"/(?P<collection>models|tunedModels|endpoints)/(?P<name>[^/]+?)(:|%3A){METHOD}/?$", re.IGNORECASE
)


def path_for(model: str) -> str:
    """The path of a request to a model, whose name may say its collection: `tunedModels/x`.

    A whole resource name, as Vertex AI writes them, is cut to its end.

    raises: InvalidRequest for a name that is no Unicode text
    """
    steps = model.split("/")
    collection, name = "models", model
    if len(steps) > 1 and steps[-2] in _COLLECTIONS:
        collection, name = steps[-2], steps[-1]
    try:
        return f"/{collection}/{quote(name, safe='@.-_~')}:{METHOD}?alt=sse"
    except UnicodeEncodeError:
        raise InvalidRequest(f"{model!r} cannot be the name of a model") from None


def model_of(url: str) -> str | None:
    """The model that a URL names, None where its path is another."""
    match = _PATH.search(url.partition("?")[0].partition("#")[0])
    if match is None:
        return None
    name = unquote(match["name"])
    return name if match["collection"] == "models" else f"{match['collection']}/{name}"
