"""Benchmarks: llmstream beside the hand-written floor, in one run on one machine."""
