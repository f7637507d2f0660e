"""OpenTelemetry spans and metrics by the semantic conventions for generative AI (extra `otel`).

    from llmstream.telemetry import instrument

    instrument(model)  # or an agent

Prompts and answers are recorded only with `content=True`.
"""

from __future__ import annotations

from llmstream.telemetry.opentelemetry import OpenTelemetry, instrument

__all__ = ["OpenTelemetry", "instrument"]
