"""Structured output: an answer that is a value of a type, asked for, read while it comes, and checked."""

from llmstream.structured.modes import Asked, asked
from llmstream.structured.output import Structured, as_structured
from llmstream.structured.output_tool import ANSWER_KEY, OutputToolDecoder

__all__ = ["ANSWER_KEY", "Asked", "OutputToolDecoder", "Structured", "as_structured", "asked"]
