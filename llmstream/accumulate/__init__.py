"""Accumulates the events of a response into a `chats` message."""

from llmstream.accumulate.accumulator import Accumulator, accumulate, collect

__all__ = ["Accumulator", "accumulate", "collect"]
