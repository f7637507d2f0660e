"""Spans and metrics for OpenTelemetry, by its conventions for generative AI; the extra `otel`.

    from llmstream.telemetry import instrument

    instrument(model)  # or an agent

Nothing of what was asked or answered is recorded, unless `content=True` asks for it.
"""

from __future__ import annotations

from llmstream.telemetry.opentelemetry import OpenTelemetry, instrument

__all__ = ["OpenTelemetry", "instrument"]
