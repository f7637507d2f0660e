"""Metrics for Prometheus (extra `gateway`)."""

from __future__ import annotations

from typing import Final

from llmstream.errors import Unsupported
from llmstream.gateway.accounts import Row

__all__ = ["Metrics"]

# From the first token of a small model (50 ms) to the long answers of reasoning models (10 min).
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """Counts the calls of one process; with several workers, each has its own.

    Labels are the routes' patterns and the vendors' names, of which there are few. Names of models come from
    clients, and could be any number.

    raises: Unsupported where prometheus-client is not installed
    """

    def __init__(self) -> None:
        try:
            from prometheus_client import (  # type: ignore[import-not-found, unused-ignore]  # optional
                CollectorRegistry,
                Counter,
                Gauge,
                Histogram,
            )
        except ImportError:
            raise Unsupported(
                "metrics need prometheus-client: pip install 'llmstream-sdk[gateway]'"
            ) from None
        # Not the global registry: an application that embeds the gateway has metrics of its own there.
        self._registry = CollectorRegistry()
        labels = ["route", "provider", "wire", "lane"]

        def counter(name: str, text: str, further: list[str]) -> Counter:
            return Counter(f"llmstream_gateway_{name}", text, labels + further, registry=self._registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(
                f"llmstream_gateway_{name}", text, labels, registry=self._registry, buckets=_SECONDS
            )

        self._calls = counter("calls", "Calls by their end.", ["outcome", "code"])
        self._tokens = counter("tokens", "Tokens of calls.", ["kind"])
        self._cost = counter("cost_usd", "Cost of calls in US dollars, where a price is known.", [])
        self._first = histogram("first_content_seconds", "Seconds from the request to the first content.")
        self._duration = histogram("duration_seconds", "Seconds from the request to the end of the call.")
        self._open = Gauge("llmstream_gateway_open_calls", "Calls in progress.", registry=self._registry)

    def began(self) -> None:
        """Counts a call in progress."""
        self._open.inc()

    def ended(self, row: Row) -> None:
        """Counts a call that is over."""
        self._open.dec()
        # The provider's name alone: see the labels above.
        known = (row.route, row.model.partition(":")[0], row.wire, row.lane)
        self._calls.labels(*known, row.outcome, row.code).inc()
        self._tokens.labels(*known, "input").inc(row.input_tokens)
        self._tokens.labels(*known, "output").inc(row.output_tokens)
        self._tokens.labels(*known, "cached").inc(row.cached_tokens)
        if row.cost_usd is not None:
            self._cost.labels(*known).inc(row.cost_usd)
        if row.first_s is not None:
            self._first.labels(*known).observe(row.first_s)
        if row.duration_s is not None:
            self._duration.labels(*known).observe(row.duration_s)

    def page(self) -> tuple[str, bytes]:
        """Content type and body of /metrics."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self._registry)
