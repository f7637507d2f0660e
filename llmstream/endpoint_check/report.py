"""What a check found: findings, the report of all, and the changes of quirks that it proposes.

A change is data: several findings may change the same field, and are merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.streams import Model


__all__ = [
    "STATUSES",
    "CheckReport",
    "Finding",
    "Quirk",
    "Status",
    "choice_without",
    "merged",
    "quirk_for_refusal",
    "quirks_of",
    "unsupported",
]


class Quirk(msgspec.Struct, frozen=True):
    """A change of fields of one group of quirks of Chat Completions.

    group:  the class of the group, such as "ToolQuirks", or "Quirks" for fields outside the groups
    fields: name to value; a tuple stands for a frozenset
    """

    group: str
    fields: dict[str, Any]

    @property
    def expression(self) -> str:
        """The change as Python: `change(ToolQuirks, choice=frozenset({"auto"}))`."""
        fields = ", ".join(f"{name}={_python(value)}" for name, value in self.fields.items())
        return f"change({self.group}, {fields})"


def _python(value: Any) -> str:
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, tuple):
        values = ", ".join(map(_python, value))
        return f"frozenset({{{values}}})" if value else "frozenset()"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python(k)}: {_python(v)}" for k, v in value.items()) + "}"
    return repr(value)


def merged(quirks: Iterable[Quirk]) -> tuple[Quirk, ...]:
    """One change a group: of what is unsupported all, of what may be chosen only what all leave."""
    groups: dict[str, dict[str, Any]] = {}
    for quirk in quirks:
        fields = groups.setdefault(quirk.group, {})
        for name, value in quirk.fields.items():
            fields[name] = _both(name, fields[name], value) if name in fields else value
    return tuple(Quirk(group, fields) for group, fields in groups.items())


def _both(name: str, old: Any, new: Any) -> Any:
    if not isinstance(old, tuple):
        return {**old, **new} if isinstance(old, dict) else new
    # Of `choice`, each finding removes one value from the same set.
    both = set(old) | set(new) if name == "unsupported" else set(old) & set(new)
    return tuple(sorted(both))


def quirks_of(model: Model[Any]) -> Quirks | None:
    """The quirks of a Chat Completions endpoint; None for other dialects."""
    dialect = model.provider.dialect
    return dialect.quirks.for_model(model.name) if isinstance(dialect, OpenAIChat) else None


def unsupported(quirks: Quirks | None, *settings: str) -> Quirk | None:
    """Leaves out these settings, and those that were left out before."""
    if quirks is None or not settings:
        return None
    return Quirk("SettingQuirks", {"unsupported": tuple(sorted({*quirks.settings.unsupported, *settings}))})


def choice_without(quirks: Quirks | None, kind: str) -> Quirk | None:
    """Leaves out one kind of `tool_choice`."""
    if quirks is None:
        return None
    return Quirk("ToolQuirks", {"choice": tuple(sorted(quirks.tools.choice - {kind}))})


# How servers refuse a field, and not its value ("max_tokens is too large").
_NOT_KNOWN: Final = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed", re.IGNORECASE
)


def quirk_for_refusal(quirks: Quirks | None, message: str) -> Quirk | None:
    """Leaves out or renames the field of a plain request that a server refuses by its name."""
    if quirks is None or not _NOT_KNOWN.search(message):
        return None
    if quirks.settings.stream_options and "stream_options" in message:
        return Quirk("SettingQuirks", {"stream_options": False})
    sent = quirks.settings.max_tokens_field
    if re.search(rf"\b{sent}\b", message):
        other = "max_tokens" if sent == "max_completion_tokens" else "max_completion_tokens"
        return Quirk("SettingQuirks", {"max_tokens_field": other})
    return None


Status: TypeAlias = Literal["ok", "degraded", "broken", "unsupported", "inconclusive", "skipped"]
"""The result of a probe:

ok:           works
degraded:     works, but a program notices: slower, less information, another form
broken:       the wire is wrong: a program gets wrong data, or an error where there should be none
unsupported:  the endpoint refuses it, openly
inconclusive: the model chose otherwise, so nothing was seen; a larger model may show it
skipped:      not asked
"""

STATUSES: Final[tuple[Status, ...]] = (
    "broken",
    "degraded",
    "unsupported",
    "inconclusive",
    "skipped",
    "ok",
)
"""The worst first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one probe found.

    detail:   what was seen
    meaning:  what that means for a program
    remedy:   what to change at the server
    quirk:    the change of quirks that adapts a provider of Chat Completions to it
    evidence: an excerpt of the wire
    """

    probe: str
    status: Status
    detail: str = ""
    meaning: str = ""
    remedy: str = ""
    quirk: Quirk | None = None
    evidence: str = ""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about an endpoint.

    address:   without credentials; None for a simulator in this process
    requests:  how many were sent that ask for a response
    usage:     what they used, as far as the endpoint reports it
    dollars:   an estimate of their cost, where the price is known
    """

    model: str
    dialect: str
    address: str | None
    findings: tuple[Finding, ...]
    requests: int
    usage: Usage
    duration_s: float
    dollars: float | None = None

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that a program cannot live with."""
        return tuple(finding for finding in self.findings if finding.status == "broken")

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """The changes of quirks that the findings propose, one a group."""
        return merged(finding.quirk for finding in self.findings if finding.quirk is not None)

    def to_json(self) -> bytes:
        """The report as a JSON document: `"format": "llmstream-check"`, `"version": 1`."""
        document = {"format": "llmstream-check", "version": 1, **msgspec.to_builtins(self)}
        return msgspec.json.format(msgspec.json.encode(document), indent=2)
