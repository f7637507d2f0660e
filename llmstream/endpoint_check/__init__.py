"""Checks an endpoint: what it can do, and where its wire is wrong.

`report = await check_endpoint("vllm:Qwen/Qwen3-8B")` asks some 25 questions; `llmstream check` prints them.
A judge of each answer separates a wire that broke from a model that chose otherwise.
"""

from llmstream.endpoint_check.endpoint import in_process
from llmstream.endpoint_check.report import STATUSES, CheckReport, Finding, Quirk, Status
from llmstream.endpoint_check.runner import (
    DEFAULT_ATTEMPTS,
    DEFAULT_MAX_TOKENS,
    PROBES,
    Bound,
    bound_of,
    check_endpoint,
    chosen,
)

__all__ = [
    "DEFAULT_ATTEMPTS",
    "DEFAULT_MAX_TOKENS",
    "PROBES",
    "STATUSES",
    "Bound",
    "CheckReport",
    "Finding",
    "Quirk",
    "Status",
    "bound_of",
    "check_endpoint",
    "chosen",
    "in_process",
]
