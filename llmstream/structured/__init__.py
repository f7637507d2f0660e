"""Structured output: a response that is a value of a type, requested, read as it streams, and validated."""

from llmstream.structured.modes import ANSWER_KEY, OutputToolDecoder, RequestInMode, in_mode
from llmstream.structured.output import Output, as_output

__all__ = ["ANSWER_KEY", "Output", "OutputToolDecoder", "RequestInMode", "as_output", "in_mode"]
