"""Structured output: a response that is a value of a type, requested, read as it streams, and validated."""

from llmstream.structured.modes import ANSWER_KEY, Asked, OutputToolDecoder, asked
from llmstream.structured.output import Output, as_output

__all__ = ["ANSWER_KEY", "Asked", "Output", "OutputToolDecoder", "as_output", "asked"]
