"""Runs the probes of a check, in order, and makes the report."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from llmstream.endpoint_check.answer_probes import ANSWER_PROBES
from llmstream.endpoint_check.endpoint import Endpoint, in_process
from llmstream.endpoint_check.error_probes import ERROR_PROBES
from llmstream.endpoint_check.probe import Probe
from llmstream.endpoint_check.report import CheckReport, Finding
from llmstream.endpoint_check.stream_probes import CANCELLATION, STREAM_PROBES
from llmstream.endpoint_check.tool_probes import TOOL_PROBES
from llmstream.endpoint_check.wire_probe import WIRE
from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    CallerError,
    ConnectionFailed,
    InvalidRequest,
    LLMStreamError,
    NotFound,
    PermissionDenied,
    ProxyError,
)
from llmstream.exchange import public_address
from llmstream.prices import estimated_price
from llmstream.streams import Model
from llmstream.streams.attempts import without_secrets
from llmstream.usage import Usage

__all__ = [
    "DEFAULT_ATTEMPTS",
    "DEFAULT_MAX_TOKENS",
    "PROBES",
    "Bound",
    "Progress",
    "bound_of",
    "check_endpoint",
    "chosen",
]

PROBES: Final[tuple[Probe, ...]] = (
    *STREAM_PROBES,
    *ANSWER_PROBES,
    *TOOL_PROBES,
    *ERROR_PROBES,
    CANCELLATION,
    WIRE,
)
"""All probes, in the order in which they are reported."""

Progress = Callable[[str, tuple[Finding, ...] | None], object]
"""Called with the name of a probe as it starts, and again with its findings."""

_log: Final = logging.getLogger("llmstream")

DEFAULT_MAX_TOKENS: Final = 512
DEFAULT_ATTEMPTS: Final = 2
# Of the longest prompt, with tools.
_INPUT_TOKENS: Final = 200

# After one of these to a plain question, no other probe would show anything.
_FATAL_ERRORS: Final = (
    AuthenticationError,
    BadRequest,
    PermissionDenied,
    NotFound,
    ConnectionFailed,
    ProxyError,
)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a check sends and costs.

    requests: if each question must be asked as often as allowed
    dollars:  None where the price is not known
    """

    requests: int
    output_tokens: int
    dollars: float | None


def bound_of(model: str, probes: Sequence[Probe], *, max_tokens: int, attempts: int) -> Bound:
    """The upper bound of a check; `model` is "provider:model"."""
    shared = 3  # baseline, its successor, the call shared by several probes
    requests = sum(probe.requests for probe in probes) * attempts + shared
    tokens = sum(probe.requests * max(probe.tokens, max_tokens) for probe in probes) * attempts
    tokens += shared * max_tokens
    usage = Usage(input_tokens=requests * _INPUT_TOKENS, output_tokens=tokens)
    return Bound(requests=requests, output_tokens=tokens, dollars=estimated_price(model, usage))


def chosen(only: Iterable[str]) -> tuple[Probe, ...]:
    """The probes of these names, which may be lists with commas; all for none.

    raises: InvalidRequest for a name that no probe has
    """
    names = tuple(name.strip() for given in only for name in given.split(",") if name.strip())
    known = {probe.name for probe in PROBES}
    for name in names:
        if name not in known:
            raise InvalidRequest(f"there is no probe {name!r}. Probes: {', '.join(p.name for p in PROBES)}.")
    return tuple(probe for probe in PROBES if not names or probe.name in names)


async def check_endpoint(
    model: Model[Any] | str,
    *,
    only: Iterable[str] = (),
    max_tokens: int = DEFAULT_MAX_TOKENS,
    attempts: int = DEFAULT_ATTEMPTS,
    concurrency: int = 1,
    progress: Progress = lambda name, findings: None,
) -> CheckReport:
    """Asks an endpoint some 25 questions and reports what it can do and where its wire is wrong.

    only:       names of probes; by default all
    max_tokens: limit of each response
    attempts:   how often a question is put whose answer shows nothing, because the model chose otherwise
    progress:   called as each probe starts and ends
    raises:     InvalidRequest for an unknown probe or a model with middleware; MissingKey
    """
    checked = Model(model) if isinstance(model, str) else model
    probes, began = chosen(only), time.perf_counter()
    async with Endpoint.to(checked, max_tokens=max_tokens, attempts=attempts) as endpoint:
        findings = await _Run(endpoint, concurrency, progress).all(probes)
        usage = sum((exchange.usage for exchange in endpoint.exchanges), Usage())
        spec = f"{checked.provider.name}:{checked.name}"
        return CheckReport(
            model=spec,
            dialect=checked.provider.dialect.name,
            address=_address(checked),
            findings=tuple(finding for probe in probes for finding in findings.get(probe.name, ())),
            requests=len(endpoint.exchanges),
            usage=usage,
            duration_s=time.perf_counter() - began,
            # Without reported tokens the price would be an estimate of nothing.
            dollars=estimated_price(spec, usage) if usage.output_tokens else None,
        )


class _Run:
    """Runs probes and collects their findings by name."""

    def __init__(self, endpoint: Endpoint, concurrency: int, progress: Progress) -> None:
        self._endpoint = endpoint
        self._gate = asyncio.Semaphore(concurrency)
        self._progress = progress
        self._found: dict[str, tuple[Finding, ...]] = {}

    async def all(self, probes: Sequence[Probe]) -> dict[str, tuple[Finding, ...]]:
        """The first probes one by one, then several at a time, then the last ones."""
        by_phase = {phase: [p for p in probes if p.phase == phase] for phase in ("first", "middle", "last")}
        for probe in by_phase["first"]:
            await self._one(probe)
        rest = by_phase["middle"] + by_phase["last"]
        if any(isinstance(exchange.error, _FATAL_ERRORS) for exchange in self._endpoint.exchanges):
            self._found |= {probe.name: _named(probe, _SKIPPED) for probe in rest}
            return self._found
        async with asyncio.TaskGroup() as group:
            for probe in by_phase["middle"]:
                group.create_task(self._one(probe))
        for probe in by_phase["last"]:
            await self._one(probe)
        return self._found

    async def _one(self, probe: Probe) -> None:
        async with self._gate:
            self._progress(probe.name, None)
            try:
                found = await probe.run(self._endpoint)
            except CallerError as error:  # the request cannot be made for this provider
                found = Finding(probe="", status="unsupported", detail=error.message)
            except Exception as error:  # the other probes may still show something
                _log.exception("the probe %s failed", probe.name)
                detail = f"the probe failed: {error!r}. This is a bug in llmstream; please report it."
                found = Finding(probe="", status="skipped", detail=detail)
            result = _named(probe, found, self._endpoint.model.known_secrets())
            self._found[probe.name] = result
            self._progress(probe.name, result)


_SKIPPED: Final = Finding(probe="", status="skipped", detail="no plain question is answered")


def _named(
    probe: Probe, result: Finding | Iterable[Finding], secrets: Iterable[str] = ()
) -> tuple[Finding, ...]:
    """The findings with the name of their probe; keys that the endpoint echoes are masked."""
    found = (result,) if isinstance(result, Finding) else tuple(result)

    return tuple(
        msgspec.structs.replace(
            finding,
            probe=probe.name,
            detail=without_secrets(finding.detail, secrets),
            evidence=without_secrets(finding.evidence, secrets),
        )
        for finding in found
    )


def _address(model: Model[Any]) -> str | None:
    if in_process(model):
        return None
    try:
        return public_address(model.provider.address(model.base_url))
    except LLMStreamError:
        return None
