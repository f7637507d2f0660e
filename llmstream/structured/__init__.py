"""Structured output: an answer that is a value of a type, asked for, read while it comes, and checked."""

from llmstream.structured.modes import ANSWER_KEY, Asked, OutputToolDecoder, asked
from llmstream.structured.output import Output, as_output

__all__ = ["ANSWER_KEY", "Asked", "Output", "OutputToolDecoder", "as_output", "asked"]
