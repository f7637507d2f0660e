"""What a check found: one finding a probe or more, and the report of all."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from llmstream.endpoint_check.quirk import Quirk, merged
from llmstream.usage import Usage

__all__ = ["STATUSES", "CheckReport", "Finding", "Status"]

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
