"""Calls: functions, custom tools, the vendor's own, approvals, and what servers leave out."""

from __future__ import annotations

import json

import pytest

from llmstream.accumulate import Accumulator
from llmstream.chats.content import ToolResult as ToolResultPart
from llmstream.chats.message import Message
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import (
    Custom,
    Finish,
    Source,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.request import Request

LENGTH = {"end": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def said(event):
    return (event.provider_metadata or {}).get("openai", {})


# Functions.


def test_a_function_streams_its_input(wire):
    answer = wire.answer(*wire.function(0, '{"a"', ":1}"))
    assert answer.calls == [("look", '{"a":1}')]
    assert answer.ids == ["call_1"]
    assert [delta.delta for delta in answer.of(ToolInputDelta)] == ['{"a"', ":1}"]
    assert said(answer.of(ToolCall)[0]) == {
        "type": "function_call",
        "provider": "openai",
        "item_id": "fc_1",
    }
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("tool-calls", "completed")


def test_parallel_functions_may_overlap(wire):
    one, two = wire.function(0, '{"a":1}', n=1), wire.function(1, '{"b":2}', n=2)
    answer = wire.answer(one[0], two[0], one[1], two[1], two[2], one[2])
    assert answer.calls == [("look", '{"b":2}'), ("look", '{"a":1}')]


def test_done_event_brings_missing_deltas(wire):
    """xAI skips the deltas of the second call (seen 2026-01)."""
    first, _, last = wire.function(0, '{"a":1}')
    done = wire.on(0, "function_call_arguments.done", arguments='{"a":1}')
    answer = wire.answer(first, done, last)
    assert answer.calls == [("look", '{"a":1}')]
    assert len(answer.of(ToolInputDelta)) == 1


def test_item_brings_a_missing_suffix(wire):
    first, delta, _ = wire.function(0, '{"a"')
    last = wire.function(0, '{"a":1}')[-1]
    answer = wire.answer(first, delta, last)
    assert [piece.delta for piece in answer.of(ToolInputDelta)] == ['{"a"', ":1}"]
    assert answer.calls == [("look", '{"a":1}')]


def test_function_without_input_is_an_object(wire):
    assert wire.answer(*wire.function(0)).calls == [("look", "{}")]


def test_a_function_known_only_when_done(wire):
    assert wire.answer(wire.function(0, '{"a":1}')[-1]).calls == [("look", '{"a":1}')]


def test_arguments_that_are_an_object(wire):
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look"}
    assert wire.answer(wire.done(0, **item, arguments={"a": 1})).calls == [("look", '{"a":1}')]


def test_non_json_input_is_an_invalid_call(wire):
    (call,) = wire.answer(*wire.function(0, '{"a":')).of(ToolCall)
    assert (call.input, call.invalid) == ('{"a":', True)


def test_namespace_and_caller_are_stored(wire):
    extra = {"namespace": "crm", "caller": {"type": "program", "caller_id": "call_p"}}
    item = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    call = wire.answer(wire.added(0, **item, **extra), wire.done(0, **item, **extra)).of(ToolCall)[0]
    assert {k: said(call)[k] for k in extra} == extra


def test_complete_call_may_be_in_progress(wire):
    """Calls of a program end as `in_progress` (vercel/ai, 2026-07)."""
    first, delta, last = wire.function(0, "{}")
    last["item"]["status"] = "in_progress"
    assert wire.answer(first, delta, last).calls == [("look", "{}")]


def test_repeated_call_id_becomes_unique(wire):
    answer = wire.answer(*wire.function(0, "{}"), *wire.function(1, "{}"))
    assert len(set(answer.ids)) == 2


def test_a_call_without_an_id_gets_its_items(wire):
    item = {"id": "fc_9", "type": "function_call", "call_id": "", "name": "look", "arguments": "{}"}
    assert wire.answer(wire.added(0, **item), wire.done(0, **item)).ids == ["fc_9"]


def test_a_call_without_a_name_is_a_defect(wire):
    item = {"id": "fc_9", "type": "function_call", "call_id": "c", "arguments": "{}"}
    answer = wire.answer(wire.added(0, **item), wire.done(0, **item))
    assert (answer.calls, answer.errors) == ([], ["decode-error"])


def test_a_name_that_comes_late(wire):
    item = {"id": "fc_9", "type": "function_call", "call_id": "c"}
    delta = wire.on(0, "function_call_arguments.delta", delta='{"a":1}')
    answer = wire.answer(wire.added(0, **item), delta, wire.done(0, **item, name="late", arguments='{"a":1}'))
    assert answer.calls == [("late", '{"a":1}')]


# Calls that are not whole.


def test_a_call_cut_by_the_limit_is_no_call(wire):
    first, delta, _ = wire.function(0, '{"a":"Tro')
    last = {**first, "type": "response.output_item.done"}
    last["item"] = {**first["item"], "arguments": '{"a":"Tro', "status": "incomplete"}
    answer = wire.answer(first, delta, last, **LENGTH)
    assert answer.calls == []
    assert answer.of(ToolInputEnd) == [ToolInputEnd("call_1", incomplete=True)]
    assert answer.finish.finish_reason == "length"
    assert answer.errors == []


def test_call_cut_by_limit_without_its_end(wire):
    answer = wire.answer(*wire.function(0, '{"a":"Tro')[:2], **LENGTH)
    assert (answer.calls, answer.finish.finish_reason) == ([], "length")


def test_complete_call_survives_the_limit(wire):
    answer = wire.answer(*wire.function(0, "{}"), *wire.message(1, "cut"), **LENGTH)
    assert (answer.calls, answer.finish.finish_reason) == ([("look", "{}")], "length")


def test_complete_response_completes_a_call(wire):
    """Where the input is complete without an end."""
    assert wire.answer(*wire.function(0, '{"a":1}')[:2]).calls == [("look", '{"a":1}')]
    answer = wire.answer(*wire.function(0, '{"a"')[:2])
    assert (answer.calls, answer.errors) == ([], ["decode-error"])
    assert answer.finish.finish_reason == "error"


def test_cancelled_partial_call_is_an_error(wire):
    answer = wire.answer(*wire.function(0, '{"a"')[:2], end="cancelled")
    assert (answer.calls, answer.finish.finish_reason) == ([], "error")


def test_truncated_stream_makes_no_call(wire):
    answer = wire.answer(*wire.function(0, "{}")[:2], end=None)
    assert (answer.calls, answer.errors) == ([], ["incomplete-stream"])


def test_too_long_an_input_is_a_limit(wire):
    limits = StreamLimits(max_tool_input_bytes=10)
    answer = wire.answer(*wire.function(0, '{"a":', '"aaaaaaaaa"}'), limits=limits)
    assert (answer.errors, answer.calls) == (["limit-exceeded"], [])


# The wrapper.


def test_a_wrapper_of_calls_is_unwrapped(wire):
    """Azure's gpt-5.4 sends its own `parallel` (vercel/ai #19067, 2026-08)."""
    uses = [
        {"recipient_name": "functions.weather", "parameters": {"city": "Oslo"}},
        {"recipient_name": "functions.now", "parameters": {}},
    ]
    answer = wire.answer(*wire.function(0, '{"tool_uses":', json.dumps(uses) + "}", name="parallel"))
    assert answer.calls == [("weather", '{"city":"Oslo"}'), ("now", "{}")]
    assert answer.ids == ["call_1_0", "call_1_1"]
    assert answer.finish.finish_reason == "tool-calls"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}',
        '{"tool_uses":[]}',
        '{"tool_uses":[{"recipient_name":"functions.a"}]}',
        '{"tool_uses":[1]}',
        "[",
    ],
)
def test_tool_named_parallel_is_a_tool(wire, text):
    assert wire.answer(*wire.function(0, text[:4], text[4:], name="parallel")).calls == [("parallel", text)]


# Custom tools.


def custom(wire, *deltas, last=None, **item):
    fixed = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", "name": "write_sql", **item}
    text = "".join(deltas) if last is None else last
    return [
        wire.added(0, **fixed, input=""),
        *(wire.on(0, "custom_tool_call_input.delta", delta=delta) for delta in deltas),
        wire.on(0, "custom_tool_call_input.done", input=text),
        wire.done(0, **fixed, input=text, status="completed"),
    ]


def test_custom_tool_input_is_plain_text(wire):
    (call,) = wire.answer(*custom(wire, "SELECT ", "1")).of(ToolCall)
    assert (call.tool_name, call.input, call.invalid) == ("write_sql", "SELECT 1", False)
    assert said(call) == {"type": "custom_tool_call", "provider": "openai", "item_id": "ctc_1"}


def test_custom_tool_end_brings_deltas(wire):
    assert wire.answer(*custom(wire, last="SELECT 1")).calls == [("write_sql", "SELECT 1")]


def test_custom_tool_without_input_is_marked(wire):
    """The call has the empty object, its metadata the empty text."""
    (call,) = wire.answer(*custom(wire)).of(ToolCall)
    assert (call.input, said(call)["input"]) == ("{}", "")


def test_custom_input_end_completes_the_call(wire):
    """Also where the item never ends."""
    assert wire.answer(*custom(wire, "SELECT 1")[:-1]).calls == [("write_sql", "SELECT 1")]
    assert wire.answer(*custom(wire, "SELECT 1")[:-2]).calls == []


def test_searches_of_xai_are_the_vendors_own(wire):
    """They come as custom calls, with an id made of the call's (vercel/ai, 2025-12)."""
    item = {"name": "x_keyword_search", "call_id": "xs_call_2", "id": "ctc_r1_xs_call_2"}
    answer = wire.answer(*custom(wire, '{"query":"q"}', **item), provider="xai")
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.tool_call_id, call.provider_executed) == ("x_search", item["id"], True)
    assert answer.of(ToolResult)[0].tool_call_id == item["id"]
    assert answer.finish.finish_reason == "stop"


@pytest.mark.parametrize(
    ("name", "call_id", "tool"),
    [("browse_page", "ws_call_3", "web_search"), ("code_execution", "ci_4", "code_execution")],
)
def test_other_xai_calls_are_vendor_executed(wire, name, call_id, tool):
    item = {"name": name, "call_id": call_id, "id": f"ctc_r1_{call_id}"}
    (call,) = wire.answer(*custom(wire, "{}", **item), provider="xai").of(ToolCall)
    assert (call.tool_name, call.provider_executed) == (tool, True)


def test_caller_tool_may_share_an_item_name(wire):
    """Gateways make the item's id of the call's."""
    item = {"call_id": "call_7", "id": "ctc_call_7"}
    (call,) = wire.answer(*custom(wire, "x", **item)).of(ToolCall)
    assert (call.tool_call_id, call.provider_executed) == ("call_7", False)


# The vendor's own tools.


def hosted(wire, kind, *between, first=(), **item):
    fixed = {"id": "it_1", "type": kind}
    opened = {"status": "in_progress", **dict(first)}
    return [wire.added(0, **fixed, **opened), *between, wire.done(0, **fixed, status="completed", **item)]


@pytest.mark.parametrize(
    ("kind", "name", "item", "text"),
    [
        (
            "web_search_call",
            "web_search",
            {"action": {"type": "search", "query": "q", "sources": []}},
            '{"type":"search","query":"q"}',
        ),
        ("web_search_call", "web_search", {"arguments": '{"q":1}', "call_id": ""}, '{"q":1}'),
        ("file_search_call", "file_search", {"queries": ["q"], "results": None}, '{"queries":["q"]}'),
        ("code_interpreter_call", "code_interpreter", {"code": "1\n"}, '{"code":"1\\n"}'),
        ("image_generation_call", "image_generation", {"result": "aGk="}, "{}"),
        ("x_search_call", "x_search", {"arguments": '{"q":1}', "call_id": ""}, '{"q":1}'),
        ("code_execution_call", "code_execution", {"arguments": '{"code":"1"}'}, '{"code":"1"}'),
        ("view_image_call", "view_image", {"arguments": "{}"}, "{}"),
        ("view_x_video_call", "view_x_video", {}, "{}"),
        ("mcp_call", "roll", {"name": "roll", "arguments": '{"n":6}', "output": "6"}, '{"n":6}'),
    ],
)
def test_vendor_calls_have_input_and_result(wire, kind, name, item, text):
    events = hosted(wire, kind, **item)
    if "name" in item:
        events[0]["item"]["name"] = item["name"]
    answer = wire.answer(*events)
    (call,), (result,) = answer.of(ToolCall), answer.of(ToolResult)
    assert (call.tool_name, call.input, call.provider_executed) == (name, text, True)
    assert call.dynamic == (kind == "mcp_call")
    assert (result.result, result.is_error) == (events[-1]["item"], False)
    assert result.tool_call_id == call.tool_call_id == "it_1"
    assert answer.finish.finish_reason == "stop"


def test_code_streams_as_json(wire):
    deltas = [wire.on(0, "code_interpreter_call_code.delta", delta=d) for d in ('print("', '1")\n')]
    ran = wire.on(0, "code_interpreter_call.interpreting")
    code = 'print("1")\n'
    answer = wire.answer(*hosted(wire, "code_interpreter_call", *deltas, ran, code=code, outputs=[]))
    assert json.loads(answer.of(ToolCall)[0].input) == {"code": code}
    assert answer.kinds.index("tool-call") < answer.kinds.index("tool-result")


def test_running_vendor_call_is_complete(wire):
    deltas = [wire.on(0, "code_interpreter_call_code.delta", delta="1")]
    done = wire.on(0, "code_interpreter_call_code.done", code="1")
    ran = wire.on(0, "code_interpreter_call.interpreting")
    item = {"id": "ci", "type": "code_interpreter_call", "code": ""}
    answer = wire.answer(wire.added(0, **item), *deltas, done, ran, end=None)
    assert answer.calls == [("code_interpreter", '{"code":"1"}')]


def test_running_search_with_query_is_a_call(wire):
    item = {"id": "ws", "type": "web_search_call", "action": {"type": "search", "query": "q"}}
    searching = wire.on(0, "web_search_call.searching")
    assert wire.answer(wire.added(0, **item), searching, end=None).calls == [
        ("web_search", '{"type":"search","query":"q"}')
    ]
    bare = {"id": "ws", "type": "web_search_call", "status": "in_progress"}
    assert wire.answer(wire.added(0, **bare), searching, end=None).calls == []


def test_image_drafts_are_preliminary(wire):
    look = {"output_format": "webp", "size": "1024x1024", "quality": "low", "background": "opaque"}
    draft = {"partial_image_index": 0, "partial_image_b64": "aGk=", **look}
    event = wire.on(0, "image_generation_call.partial_image", **draft)
    answer = wire.answer(*hosted(wire, "image_generation_call", event, result="aG8="))
    first, last = answer.of(ToolResult)
    assert (first.preliminary, first.result) == (True, draft)
    assert (last.preliminary, last.result["result"]) == (False, "aG8=")
    assert len(answer.of(ToolCall)) == 1


def test_truncated_vendor_call_shows_input(wire):
    item = {"id": "cu", "type": "computer_call", "call_id": "c1", "action": {"type": "click", "x": 7}}
    events = [wire.added(0, **item, status="in_progress"), wire.done(0, **item, status="incomplete")]
    answer = wire.answer(*events, end="incomplete", incomplete_details={"reason": "max_output_tokens"})
    (delta,), (end,) = answer.of(ToolInputDelta), answer.of(ToolInputEnd)
    assert (delta.delta, end.incomplete) == ('{"action":{"type":"click","x":7}}', True)
    assert (answer.calls, answer.errors) == ([], [])


def test_unfragmented_commands_are_read(wire):
    item = {"id": "sh", "type": "shell_call", "call_id": "c1", "action": {"commands": []}}
    events = [wire.added(0, **item)]
    for place, command in enumerate(["echo 'hi'", "ls"]):
        events.append(wire.on(0, "shell_call_command.added", command_index=place, command=""))
        events.append(wire.on(0, "shell_call_command.done", command_index=place, command=command))
    events.append(wire.done(0, **item | {"action": {"commands": ["echo 'hi'", "ls"]}}))
    assert wire.answer(*events).calls == [("shell", '{"action":{"commands":["echo \'hi\'","ls"]}}')]


def test_a_failed_call_of_mcp_is_an_error(wire):
    item = {"name": "roll", "arguments": "{}", "error": {"type": "x"}}
    (result,) = wire.answer(*hosted(wire, "mcp_call", **item)).of(ToolResult)
    assert result.is_error


def test_server_tool_list_is_stored(wire):
    item = {"id": "mcpl", "type": "mcp_list_tools", "server_label": "s", "tools": []}
    (custom_event,) = wire.answer(wire.added(0, **item), wire.done(0, **item)).of(Custom)
    assert (custom_event.kind, said(custom_event)["item"]) == ("openai.mcp_list_tools", item)


def test_a_call_that_waits_for_approval(wire):
    item = {"id": "mcpr_1", "type": "mcp_approval_request", "name": "pay", "arguments": '{"eur":1}'}
    item["server_label"] = "bank"
    answer = wire.answer(wire.added(0, **item), wire.done(0, **item))
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.input, call.provider_executed, call.dynamic) == (
        "pay",
        '{"eur":1}',
        True,
        True,
    )
    assert said(call)["item"] == item
    assert answer.of(ToolApprovalRequest) == [ToolApprovalRequest("mcpr_1", "mcpr_1")]
    assert answer.of(ToolResult) == []
    assert answer.finish.finish_reason == "stop"


def test_container_shell_is_vendor_executed(wire):
    """Its output is an item."""
    call = {"id": "sh_1", "type": "shell_call", "call_id": "c1", "environment": {"type": "container_auto"}}
    output = {"id": "sho_1", "type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "hi"}]}
    action = {"commands": ["echo hi", "ls"], "timeout_ms": None}
    answer = wire.answer(
        wire.added(0, **call, action={"commands": []}),
        wire.on(0, "shell_call_command.added", command_index=0, command=""),
        wire.on(0, "shell_call_command.delta", command_index=0, delta="echo "),
        wire.on(0, "shell_call_command.delta", command_index=0, delta="hi"),
        wire.on(0, "shell_call_command.done", command_index=0, command="echo hi"),
        wire.on(0, "shell_call_command.added", command_index=1, command=""),
        wire.on(0, "shell_call_command.delta", command_index=1, delta="ls"),
        wire.on(0, "shell_call_command.done", command_index=1, command="ls"),
        wire.done(0, **call, action=action),
        wire.added(1, **output),
        wire.done(1, **output),
    )
    (made,), (result,) = answer.of(ToolCall), answer.of(ToolResult)
    assert (made.provider_executed, json.loads(made.input)) == (True, {"action": action})
    assert (result.tool_call_id, result.result) == ("c1", output)


def test_changed_shell_command_stays_json(wire):
    call = {"id": "sh_1", "type": "shell_call", "call_id": "c1", "environment": {"type": "container_auto"}}
    answer = wire.answer(
        wire.added(0, **call),
        wire.on(0, "shell_call_command.added", command_index=0, command=""),
        wire.on(0, "shell_call_command.delta", command_index=0, delta="ls /a"),
        wire.on(0, "shell_call_command.done", command_index=0, command="ls /a"),
        wire.done(0, **call, action={"commands": ["ls /b"]}),
    )
    (made,) = answer.of(ToolCall)
    assert (json.loads(made.input), made.invalid) == ({"action": {"commands": ["ls /a"]}}, False)
    assert said(made)["item"]["action"] == {"commands": ["ls /b"]}


@pytest.mark.parametrize(
    ("item", "name", "value"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}, "environment": {"type": "local"}},
            "shell",
            {"action": {"commands": ["ls"]}},
        ),
        (
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"]}},
            "local_shell",
            {"action": {"type": "exec", "command": ["ls"]}},
        ),
        (
            {"type": "computer_call", "action": {"type": "click", "x": 1}, "pending_safety_checks": []},
            "computer",
            {"action": {"type": "click", "x": 1}},
        ),
        (
            {"type": "tool_search_call", "execution": "client", "arguments": {"queries": ["a"]}},
            "tool_search",
            {"queries": ["a"]},
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
            "apply_patch",
            {"operation": {"type": "delete_file", "path": "a"}},
        ),
    ],
)
def test_api_tools_that_the_caller_runs(wire, item, name, value):
    whole = {"id": "it_1", "call_id": "call_1", "status": "completed", **item}
    answer = wire.answer(wire.added(0, **{**whole, "status": "in_progress"}), wire.done(0, **whole))
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.tool_call_id, call.provider_executed) == (name, "call_1", False)
    assert json.loads(call.input) == value
    assert said(call)["item"] == whole
    assert answer.finish.finish_reason == "tool-calls"


def test_a_patch_streams_its_diff(wire):
    call = {"id": "apc", "type": "apply_patch_call", "call_id": "c"}
    operation = {"type": "create_file", "path": 'a"b.md'}
    answer = wire.answer(
        wire.added(0, **call, operation={**operation, "diff": ""}),
        wire.on(0, "apply_patch_call_operation_diff.delta", delta="+one\n"),
        wire.on(0, "apply_patch_call_operation_diff.delta", delta='+"two"\n'),
        wire.on(0, "apply_patch_call_operation_diff.done", diff='+one\n+"two"\n'),
        wire.done(0, **call, operation={**operation, "diff": '+one\n+"two"\n'}),
    )
    assert json.loads(answer.of(ToolCall)[0].input) == {"operation": {**operation, "diff": '+one\n+"two"\n'}}
    assert len(answer.of(ToolInputDelta)) == 4


def test_a_diff_that_comes_only_when_done(wire):
    call = {"id": "apc", "type": "apply_patch_call", "call_id": "c"}
    operation = {"type": "create_file", "path": "a"}
    answer = wire.answer(
        wire.added(0, **call, operation={**operation, "diff": ""}),
        wire.on(0, "apply_patch_call_operation_diff.done", diff="+a"),
        wire.done(0, **call, operation={**operation, "diff": "+a"}),
    )
    assert json.loads(answer.of(ToolCall)[0].input)["operation"]["diff"] == "+a"


def test_vendor_tool_search_has_its_findings(wire):
    call = {"id": "tsc_1", "type": "tool_search_call", "call_id": None, "execution": "server"}
    found = {"id": "tso_1", "type": "tool_search_output", "call_id": None, "tools": [{"name": "a"}]}
    answer = wire.answer(
        wire.added(0, **call, arguments={}),
        wire.done(0, **call, arguments={"paths": ["a"]}),
        wire.added(1, **found),
        wire.done(1, **found),
    )
    (made,), (result,) = answer.of(ToolCall), answer.of(ToolResult)
    assert (made.provider_executed, made.input) == (True, '{"paths":["a"]}')
    assert (result.tool_call_id, result.result) == ("tsc_1", found)


def test_a_program_its_calls_and_its_output(wire):
    program = {"id": "cm_1", "type": "program", "call_id": "call_p", "code": "f()", "fingerprint": "fp"}
    output = {"id": "cmo_1", "type": "program_output", "call_id": "call_p", "result": "1"}
    answer = wire.answer(
        wire.added(0, **{**program, "code": ""}),
        wire.done(0, **program),
        *wire.function(1, "{}"),
        wire.added(2, **output),
        wire.done(2, **output),
    )
    made, inner = answer.of(ToolCall)
    assert (made.tool_name, made.provider_executed) == ("programmatic_tool_calling", True)
    assert (inner.tool_name, inner.provider_executed) == ("look", False)
    assert answer.of(ToolResult)[0].tool_call_id == "call_p"
    assert answer.finish.finish_reason == "tool-calls"


def test_output_without_a_call_is_a_defect(wire):
    output = {"id": "tso_1", "type": "tool_search_output", "call_id": None, "tools": []}
    assert wire.answer(wire.done(0, **output)).errors == ["decode-error"]


def test_open_vendor_call_has_no_result(wire):
    item = {"id": "ws", "type": "web_search_call", "status": "in_progress"}
    answer = wire.answer(wire.added(0, **item))
    assert answer.of(ToolResult) == []
    assert len(answer.of(ToolInputStart)) == len(answer.of(ToolInputEnd)) == 1
    assert isinstance(answer.events[-1], Finish)


def test_final_item_call_id_goes_back(wire):
    """A proxy renames calls on the way: `output_item.done` says another `call_id` than `added`."""
    added = wire.added(0, id="fc_1", type="function_call", call_id="call_a", name="look", arguments="")
    done = wire.done(0, id="fc_1", type="function_call", call_id="call_b", name="look", arguments="{}")
    answer = wire.answer(added, done)
    assert answer.ids == ["call_a"]
    assert said(answer.of(ToolCall)[0])["call_id"] == "call_b"
    accumulator = Accumulator()
    accumulator.feed_many(answer.events)
    messages = (Message.user("Hi"), accumulator.message, Message.tool([ToolResultPart("call_a", "ok")]))
    sent = OpenAIResponses().encode(Request(model="m", messages=messages), provider="openai").http.json()
    assert [item["call_id"] for item in sent["input"][1:]] == ["call_b", "call_b"]


def test_search_urls_are_sources_once(wire):
    """Beside those that are cited."""
    listed = [{"type": "url", "url": url} for url in ("https://a.example", "https://b.example")]
    action = {"type": "search", "query": "q", "sources": [*listed, listed[0], {"type": "api", "name": "x"}]}
    answer = wire.answer(*hosted(wire, "web_search_call", action=action))
    sources = answer.of(Source)
    assert [source.url for source in sources] == ["https://a.example", "https://b.example"]
    assert len({source.id for source in sources}) == 2
    cited = {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 0,
        "end_index": 1,
    }
    start, *rest = wire.message(1, "x")
    cite = wire.on(1, "output_text.annotation.added", content_index=0, annotation=cited)
    both = wire.answer(*hosted(wire, "web_search_call", action=action), start, cite, *rest)
    assert [source.title for source in both.of(Source)] == [None, None, "A"]
