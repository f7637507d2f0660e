"""Drift: what the vendors' SDKs know that llmstream does not; see docs/drift.md."""
