"""What single vendors do to the wire, Q1 to Q23: each read without being told the vendor, where possible."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_chat import Quirks, ReasoningQuirks
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    ToolCall,
    ToolResult,
)


def test_q1_azure_filter_results_are_ignored(wire):
    prelude = {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "",
        "prompt_filter_results": [{"prompt_index": 0}],
    }
    filtered = {
        "choices": [
            {"index": 0, "finish_reason": None, "content_filter_results": {}, "content_filter_offsets": {}}
        ]
    }
    answer = wire.answer(prelude, "a", filtered, wire.chunk({}, "stop"), filtered)
    assert (answer.text, answer.errors) == ("a", [])
    assert [m.id for m in answer.of(ResponseMetadata)] == ["chatcmpl-1"]


def test_q2_router_model_is_in_a_real_chunk(wire):
    prelude = {"choices": [], "id": "", "model": "", "object": ""}
    answer = wire.answer(prelude, wire.chunk({"content": "a"}, model="gpt-5-nano"), wire.chunk({}, "stop"))
    assert answer.of(ResponseMetadata)[0].model_id == "gpt-5-nano"


def test_q3_openrouter_repeats_the_reason(wire):
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": 0.1, "is_byok": False}
    answer = wire.answer(
        b": OPENROUTER PROCESSING\n\n",
        {"choices": None},
        "a",
        wire.chunk({"content": ""}, "stop"),
        wire.chunk({"content": ""}, "stop", usage=usage),
    )
    assert answer.kinds.count("finish") == 1
    assert answer.finish.usage.raw["cost"] == 0.1


def test_q4_openrouter_error_before_choices(wire):
    error = {
        "code": 502,
        "message": "Provider error",
        "metadata": {"raw": "upstream died", "provider_name": "X"},
    }
    answer = wire.answer("a", wire.chunk({"content": "b"}, "error", error=error))
    assert answer.errors == ["server-error"]
    assert answer.of(ErrorEvent)[0].error.status == 502
    assert "upstream died" in answer.of(ErrorEvent)[0].error.message


def test_q5_details_return_and_text_is_once(wire):
    def think(words, **detail):
        detail = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", **detail}
        if words:
            detail["text"] = words
        return wire.chunk({"reasoning": words, "reasoning_details": [detail]})

    answer = wire.answer(
        think("Let"), think(" me"), think(None, signature="sig"), "a", wire.chunk({}, "stop")
    )
    assert answer.reasoning == "Let me"
    whole = {
        "type": "reasoning.text",
        "index": 0,
        "format": "anthropic-claude-v1",
        "signature": "sig",
        "text": "Let me",
    }
    assert answer.of(ReasoningEnd)[0].provider_metadata == {"acme": {"reasoning_details": [whole]}}


def test_q5_signature_after_calls_is_stored(wire):
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    late = {"type": "reasoning.text", "index": 0, "signature": "sig"}
    answer = wire.answer(
        wire.chunk(
            {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm"}]}
        ),
        wire.call(call),
        wire.chunk({"reasoning_details": [late]}),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.of(Custom) == [Custom("acme.reasoning_details", {"acme": {"reasoning_details": [late]}})]


def test_q5_details_without_reasoning_string(wire):
    detail = {"type": "reasoning.summary", "summary": "thought", "index": 0}
    answer = wire.answer(wire.chunk({"reasoning_details": [detail]}), "a", wire.chunk({}, "stop"))
    assert answer.reasoning == "thought"


def test_q6_null_arguments_and_image_files(wire):
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}}
    answer = wire.answer(
        wire.chunk({"content": "", "images": [image]}), wire.call(call), wire.chunk({}, "stop")
    )
    assert answer.calls == [("f", "{}")]
    assert answer.of(File) == [File("image/png", b"\1\2\3")]


def test_q7_annotations_are_sources(wire):
    note = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0},
    }
    answer = wire.answer("a", wire.chunk({"annotations": [note, note]}), wire.chunk({}, "stop"))
    kept = {"acme": {"start_index": 0}}
    assert answer.of(Source) == [Source("url", "source-1", "https://a.example", "A", provider_metadata=kept)]


def test_q8_groq_repeated_usage_counts_once(wire):
    usage = {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9, "queue_time": 0.1}
    last = wire.chunk({}, "stop", x_groq={"id": "req", "usage": usage}, usage=usage)
    answer = wire.answer(
        wire.chunk({"content": "a"}, x_groq={"id": "req"}), last, {"choices": [], "usage": usage}
    )
    assert (answer.finish.usage.input_tokens, answer.finish.usage.output_tokens) == (4, 5)


def test_q8_groq_tools_have_results(wire):
    run = {"index": 0, "type": "search", "arguments": '{"query":"x"}', "search_results": {"results": []}}
    answer = wire.answer(
        wire.chunk({"executed_tools": [run]}),
        wire.chunk({"executed_tools": [{**run, "output": "found"}]}),
        "a",
        wire.chunk({}, "stop"),
    )
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.input, call.provider_executed) == ("search", '{"query":"x"}', True)
    (result,) = answer.of(ToolResult)
    assert (result.result["output"], result.tool_call_id) == ("found", call.tool_call_id)
    assert answer.finish.finish_reason == "stop"


def test_q9_groq_failed_generation_is_shown(wire):
    """It is in the message of the error."""
    error = {
        "message": "Failed to call a function.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": '{"name": "f"}',
        "status_code": 400,
    }
    answer = wire.answer("a", b"event: error\n" + wire.data({"error": error}))
    assert answer.errors == ["bad-request"]
    assert '{"name": "f"}' in answer.of(ErrorEvent)[0].error.message


def test_q10_deepseek_cache_hits_are_counted(wire):
    """The keep-alive comments are ignored."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "prompt_cache_hit_tokens": 8}
    answer = wire.answer(b": keep-alive\n\n", b"\n\n", "a", wire.chunk({}, "stop", usage=usage))
    assert answer.finish.usage.cached_input_tokens == 8


def test_q11_q12_deepseek_reasoning_content(wire):
    answer = wire.answer(
        wire.chunk({"content": None, "reasoning_content": "hm"}), "a", wire.chunk({}, "stop")
    )
    assert (answer.reasoning, answer.text) == ("hm", "a")


def test_q13_xai_usage_includes_reasoning(wire):
    usage = {
        "prompt_tokens": 432,
        "completion_tokens": 68,
        "total_tokens": 636,
        "completion_tokens_details": {"reasoning_tokens": 136},
    }
    told = wire.answer("a", wire.chunk({}, "stop", usage=usage)).finish.usage
    assert (told.output_tokens, told.reasoning_tokens, told.total_tokens) == (204, 136, 636)


def test_q13_xai_repeated_reasoning_is_once(wire):
    think = wire.chunk({"reasoning_content": "same"})
    quirks = Quirks(reasoning=ReasoningQuirks(dedupe=True))
    assert wire.answer(think, think, "a", wire.chunk({}, "stop"), quirks=quirks).reasoning == "same"


def test_q13_xai_calls_at_one_index_differ(wire):
    calls = [{"index": 0, "id": i, "function": {"name": "f", "arguments": '{"x":1}'}} for i in ("a", "b")]
    no_reason = {"choices": [{"index": 0, "delta": {"content": ""}}], "citations": ["https://a.example"]}
    answer = wire.answer(wire.call(*calls), no_reason)
    assert answer.ids == ["a", "b"]
    assert answer.finish.finish_reason == "tool-calls"
    assert len(answer.of(Source)) == 1


def test_q14_xais_flat_error_is_read(wire):
    answer = wire.answer({"code": "The service is overloaded", "error": "try later"})
    assert answer.of(ErrorEvent)[0].error.message == "try later"


def test_q15_perplexity_repeats_read_once(wire):
    def chunk(new, so_far, reason=None):
        return wire.chunk(
            {"role": "assistant", "content": new},
            reason,
            citations=["https://a.example", "https://b.example"],
            search_results=[{"title": "A", "url": "https://a.example"}],
            usage={
                "prompt_tokens": 1,
                "completion_tokens": len(so_far),
                "total_tokens": 9,
                "citation_tokens": 4,
            },
        ) | {
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": new},
                    "message": {"content": so_far},
                    "finish_reason": reason,
                }
            ]
        }

    answer = wire.answer(chunk("a", "a"), chunk("b", "ab"), chunk("", "ab", "stop"), done=False)
    assert answer.text == "ab"
    assert [(s.url, s.title) for s in answer.of(Source)] == [
        ("https://a.example", "A"),
        ("https://b.example", None),
    ]
    assert answer.finish.usage.output_tokens == 2


def test_q16_moonshot_usage_inside_choice(wire):
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "cached_tokens": 3}
    last = wire.chunk({}, "stop")
    last["choices"][0]["usage"] = usage
    told = wire.answer("a", last).finish.usage
    assert (told.input_tokens, told.cached_input_tokens) == (5, 3)


def test_q16_moonshots_call_ids_are_kept(wire):
    call = {"index": 0, "id": "functions.search:0", "function": {"name": "search", "arguments": "{}"}}
    assert wire.answer(wire.call(call), wire.chunk({}, "tool_calls")).ids == ["functions.search:0"]


@pytest.mark.parametrize(("raw", "reason"), [("sensitive", "content-filter"), ("network_error", "error")])
def test_q17_zai_reasons_and_numeric_codes(wire, raw, reason):
    assert wire.answer("a", wire.chunk({}, raw)).finish.finish_reason == reason
    answer = wire.answer({"error": {"code": "1302", "message": "High concurrency"}})
    assert answer.of(ErrorEvent)[0].error.reason == "1302"


def test_q18_qwen_continuation_has_empty_id(wire):
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    tail = {"index": 0, "id": "", "type": "function", "function": {"arguments": '{"x":1}'}}
    assert wire.answer(wire.call(head), wire.call(tail), wire.chunk({}, "tool_calls")).ids == ["call_1"]


def test_q19_vllm_counts_on_every_chunk(wire):
    """Its finish reason after calls is `stop`."""
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    usages = [{"prompt_tokens": 3, "completion_tokens": n, "total_tokens": 3 + n} for n in (1, 2)]
    answer = wire.answer({**wire.call(call), "usage": usages[0]}, wire.chunk({}, "stop", usage=usages[1]))
    assert (answer.finish.finish_reason, answer.finish.usage.output_tokens) == ("tool-calls", 2)


def test_q19_vllms_error_has_no_error_key(wire):
    answer = wire.answer(
        "a", {"object": "error", "message": "engine dead", "type": "InternalServerError", "code": 500}
    )
    assert answer.errors == ["server-error"]


def test_q20_llamacpp_last_chunk_has_timings(wire):
    last = {
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "timings": {"n": 1},
    }
    assert wire.answer("a", wire.chunk({}, "stop"), last).finish.usage.total_tokens == 2


def test_q20_llamacpp_overflow_is_too_long(wire):
    error = {
        "code": 400,
        "message": "request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_ctx": 4096,
    }
    assert wire.answer({"error": error}).errors == ["context-too-long"]


def test_q21_lm_studio_overflow_forms(wire):
    """It is an error event or nothing."""
    said = b"event: error\n" + wire.data({"error": {"message": "the context length is exceeded"}})
    assert wire.read(said).finish.finish_reason == "error"
    assert wire.read(b"").errors == ["incomplete-stream"]


def test_q22_old_ollama_calls_all_at_index_0(wire):
    calls = [
        {"index": 0, "id": i, "function": {"name": "f", "arguments": a}}
        for i, a in (("a", '{"x":1}'), ("b", '{"x":2}'))
    ]
    answer = wire.answer(*[wire.call(call) for call in calls], wire.chunk({"content": ""}, "stop"))
    assert answer.calls == [("f", '{"x":1}'), ("f", '{"x":2}')]
    assert answer.finish.finish_reason == "tool-calls"


def test_q23_gemini_signature_is_on_its_call(wire):
    extra = {"google": {"thought_signature": "sig"}}
    call = {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}, "extra_content": extra}
    answer = wire.answer(wire.call(call), wire.chunk({}, "stop"))
    assert answer.of(ToolCall)[0].provider_metadata == {"acme": {"extra_content": extra}}


def test_q23_gemini_signature_may_come_alone(wire):
    extra = {"google": {"thought_signature": "sig"}}
    head = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    answer = wire.answer(
        wire.call(head), wire.call({"index": 0, "extra_content": extra}), wire.chunk({}, "stop")
    )
    assert answer.of(ToolCall)[0].provider_metadata == {"acme": {"extra_content": extra}}
    answer = wire.answer("a", wire.chunk({"extra_content": extra}), wire.chunk({}, "stop"))
    assert answer.of(Custom)[0].provider_metadata == {"acme": {"extra_content": extra}}


def test_minimax_usage_choice_without_delta(wire):
    last = {"choices": [{"index": 0, "finish_reason": "stop"}], "usage": {"total_tokens": 2}}
    assert wire.answer("a", last).finish.usage.total_tokens == 2


def test_hugging_face_error_is_a_string(wire):
    answer = wire.answer("a", {"error": "Input validation error: too long", "error_type": "validation"})
    assert answer.of(ErrorEvent)[0].error.message.startswith("Input validation")


def test_databricks_reasoning_is_in_summary(wire):
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": "s"}]}
    answer = wire.answer(
        wire.chunk({"content": [reasoning]}),
        wire.chunk({"content": [{"type": "text", "text": "so"}]}),
        wire.chunk({}, "stop"),
    )
    assert (answer.reasoning, answer.text, answer.errors) == ("hm", "so", [])
