"""Structured output: an answer that is a value of a type, asked for, read while it comes, and checked."""

from llmstream.structured.modes import Asked, asked
from llmstream.structured.output import Output, as_output
from llmstream.structured.output_tool import ANSWER_KEY, OutputToolDecoder

__all__ = ["ANSWER_KEY", "Asked", "Output", "OutputToolDecoder", "as_output", "asked"]
