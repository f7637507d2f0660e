"""Messages and reasoning: blocks, phases, refusals, annotations, log probabilities, encrypted forms."""

from __future__ import annotations

import pytest

from llmstream.events import (
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputStart,
)


def said(event):
    return (event.provider_metadata or {}).get("openai", {})


def message(wire, place, content, **item):
    fixed = {"id": f"msg_{place}", "type": "message", "role": "assistant"}
    return [wire.added(place, **fixed, content=[]), wire.done(place, **fixed, content=content, **item)]


def test_several_messages_are_several_texts(wire):
    answer = wire.answer(*wire.message(0, "look", item_id="m1"), *wire.message(1, "done", item_id="m2"))
    assert answer.texts == ["look", "done"]
    assert [start.id for start in answer.of(TextStart)] == ["m1", "m2"]


def test_the_phase_of_a_message_is_kept(wire):
    item = {"type": "message", "id": "msg_1", "phase": "commentary"}
    start = wire.answer(wire.added(0, **item), wire.done(0, **item, content=[])).of(TextStart)[0]
    assert said(start) == {"provider": "openai", "item_id": "msg_1", "phase": "commentary"}


def test_unstreamed_text_comes_from_the_item(wire):
    assert wire.answer(*message(wire, 0, [{"type": "output_text", "text": "whole"}])).texts == ["whole"]


def test_unstreamed_text_comes_from_done(wire):
    events = [wire.message(0)[0], wire.on(0, "output_text.done", content_index=0, text="whole")]
    content = [{"type": "output_text", "text": "whole"}]
    answer = wire.answer(*events, wire.done(0, type="message", id="msg_1", content=content))
    assert answer.texts == ["whole"]


def test_unstreamed_second_part_is_added(wire):
    content = [{"type": "output_text", "text": "one "}, {"type": "output_text", "text": "two"}]
    events = [wire.message(0)[0], "one ", wire.done(0, type="message", id="msg_1", content=content)]
    answer = wire.answer(*events)
    assert answer.texts == ["one two"]
    assert said(answer.of(TextEnd)[0])["content"] == content


def test_parts_counted_from_one_come_once(wire):
    """Bedrock's open models stream a message under content_index 1 (ruby_llm, 2026-08)."""
    content = [{"type": "output_text", "text": "once"}]
    answer = wire.answer(
        wire.message(0)[0],
        wire.on(0, "output_text.delta", content_index=1, delta="once"),
        wire.done(0, type="message", id="msg_1", content=content),
    )
    assert answer.texts == ["once"]


def test_message_and_reasoning_open_at_once(wire):
    """OpenRouter opens Gemini's reasoning inside the message (rig, 2026-07)."""
    rs = {"type": "reasoning", "id": "rs_1", "summary": []}
    first, delta, last = wire.message(0, "yes")
    answer = wire.answer(
        first, wire.added(1, **rs), delta, last, wire.done(1, **rs, encrypted_content="e", format="g-v1")
    )
    assert answer.texts == ["yes"]
    assert said(answer.of(ReasoningEnd)[0]) == {"encrypted_content": "e", "format": "g-v1"}


def test_tool_closes_text_and_splits_it(wire):
    tool = wire.function(1, "{}")
    events = [wire.message(0)[0], "before", tool[0], "after", *tool[1:]]
    answer = wire.answer(*events)
    assert answer.texts == ["before", "after"]
    assert answer.kinds.index("text-end") < answer.kinds.index("tool-input-start")
    assert len({start.id for start in answer.of(TextStart)}) == 2


def test_text_for_closed_message_is_dropped(wire):
    assert wire.answer(*wire.message(0, "a"), "late").texts == ["a"]


# Refusals.


def test_refusal_is_text_and_content_filter(wire):
    answer = wire.answer(
        wire.message(0)[0],
        wire.on(0, "content_part.added", content_index=0, part={"type": "refusal", "refusal": ""}),
        wire.on(0, "refusal.delta", content_index=0, delta="No"),
        wire.on(0, "refusal.delta", content_index=0, delta="."),
        wire.on(0, "refusal.done", content_index=0, refusal="No."),
    )
    assert answer.texts == ["No."]
    assert said(answer.of(TextStart)[0])["refusal"] is True
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("content-filter", "completed")


def test_a_refusal_that_was_not_streamed(wire):
    answer = wire.answer(*message(wire, 0, [{"type": "refusal", "refusal": "No."}]))
    assert (answer.texts, answer.finish.finish_reason) == (["No."], "content-filter")


def test_a_refusal_that_comes_only_when_done(wire):
    done = wire.on(0, "refusal.done", content_index=0, refusal="No.")
    assert wire.answer(wire.message(0)[0], done).texts == ["No."]


# Annotations.

URL = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}


@pytest.mark.parametrize(
    ("annotation", "source"),
    [
        (URL, ("url", "https://a.example", "A", None)),
        ({"type": "url_citation", "url": "https://b.example"}, ("url", "https://b.example", None, None)),
        (
            {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 3},
            ("document", None, "a.pdf", "a.pdf"),
        ),
        (
            {"type": "container_file_citation", "file_id": "f", "container_id": "c", "filename": "b.csv"},
            ("document", None, "b.csv", "b.csv"),
        ),
        ({"type": "file_path", "file_id": "file-7", "index": 1}, ("document", None, "file-7", None)),
    ],
)
def test_annotations_are_sources(wire, annotation, source):
    added = wire.on(0, "output_text.annotation.added", annotation_index=0, annotation=annotation)
    first, delta, last = wire.message(0, "a")
    answer = wire.answer(first, delta, added, last)
    (found,) = answer.of(Source)
    assert (found.source_type, found.url, found.title, found.filename) == source
    assert said(found) == annotation
    assert said(answer.of(TextEnd)[0])["annotations"] == [annotation]


def test_item_annotations_are_sources(wire):
    content = [{"type": "output_text", "text": "a", "annotations": [URL, {"type": "new_kind"}, "odd"]}]
    answer = wire.answer(*message(wire, 0, content))
    assert [source.url for source in answer.of(Source)] == ["https://a.example"]
    assert said(answer.of(TextEnd)[0])["annotations"] == [URL, {"type": "new_kind"}]


def test_annotations_are_not_read_twice(wire):
    added = wire.on(0, "output_text.annotation.added", annotation=URL)
    content = [{"type": "output_text", "text": "a", "annotations": [URL]}]
    first, last = message(wire, 0, content)
    assert len(wire.answer(first, "a", added, added, last).of(Source)) == 2


def test_source_ids_are_unique(wire):
    added = wire.on(0, "output_text.annotation.added", annotation=URL)
    ids = [source.id for source in wire.answer(wire.message(0)[0], added, added, added).of(Source)]
    assert len(set(ids)) == 3


# Log probabilities.


def test_logprobs_are_on_fragments_and_end(wire):
    one, two = {"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.2}
    first, *_, last = wire.message(0, "ab")
    answer = wire.answer(
        first,
        wire.on(0, "output_text.delta", content_index=0, delta="a", logprobs=[one]),
        wire.on(0, "output_text.delta", content_index=0, delta="b", logprobs=[two]),
        last,
    )
    assert [said(delta) for delta in answer.of(TextDelta)] == [{"logprobs": [one]}, {"logprobs": [two]}]
    assert said(answer.of(TextEnd)[0]) == {"logprobs": [one, two]}


ONE = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}


def test_logprobs_may_come_at_the_end_alone(wire):
    first, delta, last = wire.message(0, "a")
    done = wire.on(0, "output_text.done", content_index=0, text="a", logprobs=[ONE])
    assert said(wire.answer(first, delta, done, last).of(TextEnd)[0]) == {"logprobs": [ONE]}
    last["item"]["content"][0]["logprobs"] = [ONE]
    assert said(wire.answer(first, delta, last).of(TextEnd)[0]) == {"logprobs": [ONE]}


def test_unfragmented_text_has_its_logprobs(wire):
    done = wire.on(0, "output_text.done", content_index=0, text="a", logprobs=[ONE])
    answer = wire.answer(wire.message(0)[0], done)
    assert said(answer.of(TextDelta)[0]) == said(answer.of(TextEnd)[0]) == {"logprobs": [ONE]}


@pytest.mark.parametrize(
    "part",
    [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "a"}],
)
def test_unstreamed_part_is_read(wire, part):
    first = wire.message(0)[0]
    whole = wire.on(0, "content_part.done", content_index=0, part=part)
    assert wire.answer(first, whole, whole).texts == ["a"]


def test_unstreamed_summary_is_read(wire):
    part = {"type": "summary_text", "text": "hm"}
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    done = wire.on(0, "reasoning_summary_part.done", summary_index=0, part=part)
    assert wire.answer(wire.added(0, **item), done, done).reasonings == ["hm"]


# Reasoning.


def reasoning(wire, *summaries, first=None, last=None, streamed=True):
    item = {"id": "rs_1", "type": "reasoning"}
    events = [wire.added(0, **item, summary=[], encrypted_content=first)]
    for index, words in enumerate(summaries if streamed else ()):
        where = {"item_id": "rs_1", "summary_index": index}
        events += [
            wire.on(0, "reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""}),
            wire.on(0, "reasoning_summary_text.delta", **where, delta=words),
            wire.on(0, "reasoning_summary_text.done", **where, text=words),
            wire.on(0, "reasoning_summary_part.done", **where, part={"type": "summary_text", "text": words}),
        ]
    pieces = [{"type": "summary_text", "text": words} for words in summaries]
    return [*events, wire.done(0, **item, summary=pieces, encrypted_content=last)]


def test_each_summary_is_a_block(wire):
    answer = wire.answer(*reasoning(wire, "first", "second"))
    assert answer.reasonings == ["first", "second"]
    assert [start.id for start in answer.of(ReasoningStart)] == ["rs_1:0", "rs_1:1"]
    assert [said(start)["item_id"] for start in answer.of(ReasoningStart)] == ["rs_1", "rs_1"]


def test_the_last_encrypted_form_wins(wire):
    answer = wire.answer(*reasoning(wire, "a", "b", first="early", last="late"))
    assert [said(end) for end in answer.of(ReasoningEnd)] == [{}, {"encrypted_content": "late"}]


def test_early_encrypted_form_is_stored(wire):
    answer = wire.answer(*reasoning(wire, "a", first="early", last=None))
    assert said(answer.of(ReasoningEnd)[0]) == {"encrypted_content": "early"}


def test_empty_reasoning_block_keeps_form(wire):
    answer = wire.answer(*reasoning(wire, last="e"))
    assert (answer.reasonings, len(answer.of(ReasoningStart))) == ([], 1)
    assert said(answer.of(ReasoningEnd)[0]) == {"encrypted_content": "e"}


def test_reasoning_begins_when_its_item_does(wire):
    kinds = wire.answer(reasoning(wire)[0], end=None).kinds
    assert kinds[2] == "reasoning-start"


def test_unstreamed_summary_comes_from_item(wire):
    assert wire.answer(*reasoning(wire, "a", "b", streamed=False)).reasonings == ["a", "b"]


def test_a_summary_that_comes_only_when_done(wire):
    events = [reasoning(wire)[0], wire.on(0, "reasoning_summary_text.done", summary_index=0, text="whole")]
    assert wire.answer(*events).reasonings == ["whole"]


def test_bare_reasoning_is_marked(wire):
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    content = [{"type": "reasoning_text", "text": "hm so"}]
    answer = wire.answer(
        wire.added(0, **item),
        wire.on(0, "reasoning_part.added", content_index=0, part={"type": "reasoning_text", "text": ""}),
        wire.on(0, "reasoning_text.delta", content_index=0, delta="hm "),
        wire.on(0, "reasoning_text.delta", content_index=0, delta="so"),
        wire.on(0, "reasoning_text.done", content_index=0, text="hm so"),
        wire.done(0, **item, content=content),
    )
    assert answer.reasonings == ["hm so"]
    assert [start.id for start in answer.of(ReasoningStart)] == ["rs_1:0"]


def test_resumed_stream_starts_in_reasoning(wire):
    delta = wire.on(0, "reasoning_summary_text.delta", item_id="rs_1", summary_index=1, delta="tail")
    done = wire.done(0, id="rs_1", type="reasoning", summary=[], encrypted_content="e")
    assert wire.answer(delta, done).reasonings == ["tail"]


def test_tool_may_open_during_reasoning(wire):
    answer = wire.answer(reasoning(wire)[0], *wire.function(1, "{}"))
    assert len(answer.of(ToolInputStart)) == 1
