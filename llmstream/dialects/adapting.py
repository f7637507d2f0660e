"""Finds the hint that a vendor's error rejects, and removes it from the request.

A hint changes how the model responds, not the request itself: reasoning effort and display, sampling,
parallel tool calls, strict schemas. A response without it is worse, not wrong. Messages, tools, schemas
and limits are not hints and are never removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.errors import BadRequest, ContentFiltered, ContextTooLong, LLMStreamError
from llmstream.exchange import HttpRequest

__all__ = ["Refused", "refused_hint", "without_hints"]

Path: TypeAlias = tuple[str, ...]

# Each hint and its paths in the bodies of all dialects. More specific names come first.
_FIELDS: Final[dict[str, str]] = {
    "reasoning.display": (
        "reasoning.summary thinking.display generationConfig.thinkingConfig.includeThoughts "
        "generation_config.thinking_summaries additionalModelRequestFields.thinking.display"
    ),
    "reasoning.effort": (
        "reasoning_effort reasoning.effort output_config.effort outputConfig.effort prompt_mode "
        "generationConfig.thinkingConfig.thinkingLevel generationConfig.thinkingConfig.thinkingBudget "
        "generation_config.thinking_level additionalModelRequestFields.reasoning_effort "
        "additionalModelRequestFields.reasoningConfig additionalModelRequestFields.thinking "
        "chat_template_kwargs enable_thinking thinking_budget reasoning_format think thinking reasoning"
    ),
    "top_p": "top_p p inferenceConfig.topP generationConfig.topP generation_config.top_p options.top_p",
    "top_k": (
        "top_k k additionalModelRequestFields.top_k generationConfig.topK generation_config.top_k "
        "options.top_k"
    ),
    "temperature": (
        "temperature inferenceConfig.temperature generationConfig.temperature generation_config.temperature "
        "options.temperature"
    ),
    "presence_penalty": "presence_penalty generationConfig.presencePenalty options.presence_penalty",
    "frequency_penalty": "frequency_penalty generationConfig.frequencyPenalty options.frequency_penalty",
    "seed": "seed random_seed generationConfig.seed generation_config.seed options.seed",
    "parallel_tool_calls": "parallel_tool_calls tool_choice.disable_parallel_tool_use",
    "strict": "tools.*.function.strict tools.*.strict toolConfig.tools.*.toolSpec.strict",
}

_HINTS: Final[tuple[tuple[str, Path], ...]] = tuple(
    (hint, tuple(path.split("."))) for hint, paths in _FIELDS.items() for path in paths.split()
)

# Cohere's `p` and `k` match an error's `param` only: in a message they could mean anything.
_SHORTEST_NAME: Final = 3

# Matches messages about a field that is not supported, but not about a value out of range.
_REFUSES: Final = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|deprecated|incompatible|no longer|cannot|can't|"
    r"extra (?:inputs|fields)|must be unset|may only be|only the|(?:does|do|is|are)(?:n't| not)|"
    r"not (?:currently |yet )?(?:be )?(?:supported|allowed|permitted|enabled|available|accepted|both)",
    re.IGNORECASE,
)

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


class Refused(msgspec.Struct, frozen=True):
    """A field that a model does not support.

    hint:  our name of the setting, such as "temperature" or "reasoning.effort"
    path:  of the field in the body; `*` matches each item of a list
    value: the rejected value, where others may be accepted; None if the field itself was rejected
    """

    hint: str
    path: Path
    value: str | None = None


def refused_hint(error: LLMStreamError, http: HttpRequest) -> Refused | None:
    """Finds the hint in the request that the error rejects; None if it is about anything else."""
    if not isinstance(error, BadRequest) or isinstance(error, ContextTooLong | ContentFiltered):
        return None
    if not _REFUSES.search(error.message):
        return None
    body = _body(http)
    for hint, path in _HINTS:
        found = list(_values(body, path))
        named = _names(error.param, path) if error.param else _mentions(error.message, path)
        if found and named:
            value = found[0] if isinstance(found[0], str) and found[0] in error.message else None
            return Refused(hint, path, value)
    return None


def without_hints(http: HttpRequest, refused: list[Refused]) -> tuple[HttpRequest, list[Refused]]:
    """Removes the fields from the request; also returns those that were present."""
    body = _body(http)
    gone = [one for one in refused if _remove(body, one)]
    if not gone:
        return http, []
    return msgspec.structs.replace(http, body=msgspec.json.encode(body)), gone


def _body(http: HttpRequest) -> dict[str, Any]:
    body = http.json()
    return body if isinstance(body, dict) else {}


def _names(param: str, path: Path) -> bool:
    """Whether the vendor's name of a field matches the path or its end."""
    named = [part for part in re.split(r"[.\[\]]+", param) if part and not part.isdecimal()]
    wanted = [part for part in path if part != "*"]
    return bool(named) and (named == wanted or named == wanted[-len(named) :])


def _mentions(message: str, path: Path) -> bool:
    """Whether a message names the field, in any spelling: `thinkingLevel`, "Thinking level"."""
    if len(path[-1]) < _SHORTEST_NAME:
        return False
    wanted, words = _words(path[-1]), _words(message)
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _values(value: Any, path: Path) -> Iterator[Any]:
    """Yields the values at the path, one for each item of a list on the way."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _values(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])


def _remove(value: Any, refused: Refused) -> bool:
    """Removes the field, and objects that become empty. Returns whether it was there."""
    *way, name = refused.path
    removed = False
    for parent in list(_values(value, tuple(way))):
        if isinstance(parent, dict) and name in parent and refused.value in (None, parent[name]):
            del parent[name]
            removed = True
            if not parent and way and way[-1] != "*":
                _remove(value, Refused(refused.hint, tuple(way)))
    return removed
