"""Folding: the events of a response become a `chats` message."""

from llmstream.accumulate.accumulator import Accumulator, accumulate, collect

__all__ = ["Accumulator", "accumulate", "collect"]
