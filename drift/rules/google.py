"""Gemini: generateContent on both clouds, and Interactions."""

from __future__ import annotations

import re

from drift.rules.rule import Efforts, Rule, effort_rules

__all__ = ["RULES", "TYPICAL"]

_GOOGLE = ("google", "vertex", "google-interactions")
_ALL_SAMPLERS = ("temperature", "top_k", "top_p")

_GEMINI: Efforts = {
    r"^gemini-3\.[78]-flash(?!.*tts)|^gemini-flash-latest|^gemini-4-(argon|carbon)": (
        "low",
        "medium",
        "high",
    ),
    r"^gemini-4-hydrogen": ("low", "medium", "high", "xhigh"),
    r"^gemini-3\.1-flash-lite-image": ("minimal", "high"),
    r"^gemini-3\.5-flash|^gemini-3\.6-flash|^gemini-3\.1-flash-lite": ("minimal", "low", "medium", "high"),
}
_UNVERSIONED = r"nano-banana|gemini-omni|gemini-robotics-er-[2-9]"
_SAMPLING_IGNORED = r"^gemini-3\.5-flash-lite|^gemini-3\.[678]-flash(?!.*tts)|^gemini-4-|^gemini-flash-latest"
_LEVELS = "PA profiles/google.py; ai.google.dev Thinking; docs.cloud.google.com 3.6 Flash; google-genai 3.4"

RULES = (
    *effort_rules("Gemini: a model", _GOOGLE, _GEMINI, _LEVELS),
    Rule(
        "Gemini: a reasoning request has no level",
        _GOOGLE,
        r"^gemini-(3\.[1-8]|4)-(?!.*(tts|transcribe|image))",
        lambda wanted, sent: wanted.effort is not None and sent.effort is None,
        _LEVELS,
    ),
    Rule(
        "Gemini: xhigh and max are not the highest level of Hydrogen",
        _GOOGLE,
        r"^gemini-4-hydrogen",
        lambda wanted, sent: wanted.effort in ("xhigh", "max") and sent.effort != "xhigh",
        _LEVELS,
    ),
    Rule(
        "Gemini: a budget for a model without a version in its name",
        ("google", "vertex"),
        _UNVERSIONED,
        lambda wanted, sent: "thinkingBudget" in sent.thinking,
        "AI SDK google",
    ),
    Rule(
        "Gemini: sampling that the model ignores, without a warning",
        _GOOGLE,
        _SAMPLING_IGNORED,
        lambda wanted, sent: (
            wanted.sampling and not all(re.search(rf"'{name}'", sent.warned) for name in _ALL_SAMPLERS)
        ),
        "docs.cloud.google.com 3.6 Flash; anomalyco/opencode#38924",
    ),
    Rule(
        "Gemini: penalties, which the model refuses",
        _GOOGLE,
        r"^gemini-([34]|flash)",
        lambda wanted, sent: "presence_penalty" in sent.settings,
        "google-gemini/cookbook#1290",
    ),
)


_GEMINIS = (
    "gemini-4-argon",
    "gemini-4-carbon",
    "gemini-4-hydrogen",
    "gemini-3.8-flash",
    "gemini-3.7-flash",
    "gemini-flash-latest",
    "gemini-3.6-flash",
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.1-flash-lite",
    "gemini-3.1-flash-lite-image",
    "gemini-nano-banana-2.1",
    "gemini-omni-1.2-flash",
    "gemini-robotics-er-2-preview",
    "nano-banana-pro-preview",
)

TYPICAL = {
    "google": _GEMINIS,
    "vertex": _GEMINIS,
    "google-interactions": _GEMINIS,
}
