"""Whole bodies, made by hand in the vendors' format: the same events at every cut, and honest ends."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks
from llmstream.events import Finish, ReasoningEnd, Source, Usage
from llmstream.request import Request
from llmstream.server_side.wires import server_side

EXPECTED = {
    "text": ("", "Grüße aus Köln 🙂", [], "stop"),
    "parallel_tools": ("", "", [("weather", '{"city":"Tromsø"}'), ("now", "{}")], "tool-calls"),
    "openrouter_reasoning": ("Tiles first.", "Lay the tiles, then grout.", [], "stop"),
    "azure": ("", "Two lines.", [], "stop"),
    "deepseek_tools": ("I should look.", "", [("look", '{"where": "up"}')], "tool-calls"),
    "perplexity": ("", "The moon.", [], "stop"),
    "logprobs": ("", "It rains.", [], "stop"),
    "custom_tool": ("", "", [("run_sql", " SELECT {1} -- “ok”"), ("now", "{}")], "tool-calls"),
    "copilot": ("The user wants the time.", "Let me look.", [("now", "{}")], "tool-calls"),
}


def test_every_recording_is_expected(recordings):
    assert set(recordings) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_says_what_it_says(wire, recordings, name):
    answer = wire.read(recordings[name])
    assert (answer.reasoning, answer.text, answer.calls, answer.finish.finish_reason) == EXPECTED[name]
    assert answer.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_cuts_change_nothing(wire, recordings, name):
    body = recordings[name]
    whole = wire.read(body).events
    assert wire.read(body, cuts=range(1, len(body))).events == whole
    for cut in range(1, len(body)):
        assert wire.read(body, cuts=[cut]).events == whole


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("eol", [b"\r\n", b"\r"])
def test_line_ends_change_nothing(wire, recordings, name, eol):
    assert wire.read(recordings[name].replace(b"\n", eol)).events == wire.read(recordings[name]).events


@pytest.mark.parametrize("name", EXPECTED)
def test_body_cut_before_reason_is_one_error(wire, recordings, name):
    """And one finish."""
    frames = recordings[name].split(b"\n\n")
    for count in range(len(frames)):
        body = b"".join(frame + b"\n\n" for frame in frames[:count])
        answer = wire.read(body)
        complete = b'"finish_reason":"' in body
        assert answer.errors == ([] if complete else ["incomplete-stream"])
        assert len(answer.of(Finish)) == 1
        assert answer.finish.finish_reason == (EXPECTED[name][3] if complete else "error")


def test_a_body_cut_anywhere_keeps_what_came(wire, recordings):
    for name, body in recordings.items():
        for cut in range(0, len(body), 7):
            answer = wire.read(body[:cut])
            assert EXPECTED[name][1].startswith(answer.text)
            assert set(answer.calls) <= set(EXPECTED[name][2])


def test_usage_of_the_recordings(wire, recordings):
    def usage(name):
        told = wire.read(recordings[name]).finish.usage
        return told.input_tokens, told.output_tokens, told.reasoning_tokens, told.cached_input_tokens

    assert usage("text") == (11, 7, 0, 0)
    assert usage("openrouter_reasoning") == (20, 40, 22, None)
    assert usage("deepseek_tools") == (50, 12, None, 32)
    assert wire.read(recordings["azure"]).finish.usage == Usage()


def test_sources_of_perplexity_come_once(wire, recordings):
    sources = wire.read(recordings["perplexity"]).of(Source)
    assert [source.url for source in sources] == ["https://moon.example/tides", "https://sea.example"]


def test_finish_holds_tier_and_moderation(wire, recordings):
    said = wire.read(recordings["logprobs"]).finish.provider_metadata["acme"]
    assert (said["service_tier"], said["system_fingerprint"]) == ("default", "fp_38343a2f8f")
    assert said["moderation"]["input"]["results"][0]["category_scores"] == {"violence": 0.0125}


def test_a_signature_closes_its_reasoning(wire, recordings):
    (end,) = wire.read(recordings["copilot"]).of(ReasoningEnd)
    assert end.provider_metadata == {"acme": {"reasoning_opaque": "EpUDCkYIB4=="}}


@pytest.mark.parametrize("name", ["logprobs", "custom_tool", "copilot"])
def test_what_stands_beside_survives_writing(wire, recordings, name):
    quirks = Quirks(reasoning=ReasoningQuirks(field="reasoning_text" if name == "copilot" else "none"))
    events = wire.read(recordings[name], quirks).events
    writer = server_side(OpenAIChat(quirks)).event_encoder(Request(model="m"))
    again = wire.read(b"".join(writer.feed(event) for event in events) + writer.close(), quirks).events
    usage = [finish.usage for finish in events + again if isinstance(finish, Finish)]
    assert (usage[0].total_tokens, again[:-1]) == (usage[1].total_tokens, events[:-1])
    assert again[-1].provider_metadata == events[-1].provider_metadata


def test_extra_source_fields_are_metadata(wire):
    found = {
        "url": "https://a.example",
        "title": "A",
        "date": "2026-01-05",
        "snippet": "It rains.",
        "x": None,
    }
    answer = wire.answer({**wire.chunk({"content": "a"}), "search_results": [found]}, wire.chunk({}, "stop"))
    said = {"acme": {"date": "2026-01-05", "snippet": "It rains."}}
    assert [source.provider_metadata for source in answer.of(Source)] == [said]
