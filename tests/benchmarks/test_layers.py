"""Stacks as py-spy writes them, to layers and a picture."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.bodies import BODIES, body_of
from benchmarks.flame import flame_graph
from benchmarks.layers import LAYERS, Frame, samples, shares
from llmstream.dialects.base import dialect_class
from llmstream.events import ToolCall
from llmstream.testing import decode_body

ROOT = "<module> (benchmarks/profile.py:140);sampled.<locals>.measured (benchmarks/profile.py:52)"
CALL = f"{ROOT};Handle._run (asyncio/events.py:80);HTTPCall.next (llmstream/streams/http_call.py:120)"
READ = f"{CALL};PayloadDecoder.feed (llmstream/dialects/decoder.py:99)"
# One line for each layer: what is below `measured` is what counts.
STACKS = {
    "request": f"{CALL};HTTPCall._open (llmstream/streams/http_call.py:200)",
    "http": f"{CALL};f (/x/aiohttp/client.py:2);_ask (/x/llmstream/transport/http.py:9)",
    "framing": f"{READ};SSEDecoder.feed_data (llmstream/framing/sse.py:80)",
    "json": f"{READ};JSONDecoder_decode (msgspec/_core.cpython-311-x86_64-linux-gnu.so)",
    "events": f"{READ};Struct_vectorcall (msgspec/_core.cpython-311-x86_64-linux-gnu.so)",
    "grammar": f"{CALL};Guard._pass (llmstream/grammar.py:291)",
    "fold": f"{CALL};Accumulator.feed_many (llmstream/accumulate/accumulator.py:132)",
    "stream": f"{CALL};_PyEval_EvalFrameDefault (libpython3.11.so.1.0)",
    "agent": f"{CALL};Loop.run (llmstream/agent/loop.py:10);loads (json/__init__.py:3)",
    "loop": f"{ROOT};BaseEventLoop._run_once (/usr/lib/python3.11/asyncio/base_events.py:1900)",
    "kernel": f"{CALL};_SelectorSocketTransport.write (asyncio/selector_events.py:1);__send (libc.so.6)",
    "gc": f"{READ};gc_collect_main (libpython3.11.so.1.0)",
    "reader": f"{ROOT};readers.<locals>.event_stream (benchmarks/cpu.py:47)",
}
FOLDED = [f"{stack} {count}" for count, stack in enumerate(STACKS.values(), 1)]


def test_each_stack_has_one_layer():
    found = shares(samples([*FOLDED, "<module> (a.py:1);imported (b.py:2) 500"], "measured"))
    total = sum(range(1, len(STACKS) + 1))
    assert found == {layer: count / total for count, layer in enumerate(STACKS, 1)}
    assert list(found) == list(LAYERS)


def test_lines_of_one_function_are_added():
    stacks = [f"{ROOT};f (llmstream/grammar.py:{line}) 2" for line in (1, 2, 3)]
    assert [(s.stack, s.count) for s in samples(stacks, "measured")] == [
        ((Frame("f", "llmstream/grammar.py"),), 6)
    ]


def test_flame_graph_stays_inside_its_frame():
    picture = ET.fromstring(flame_graph("a <title>", list(samples(FOLDED, "measured"))))
    width, height = (float(picture.attrib[name]) for name in ("width", "height"))
    rects = picture.findall(".//{*}g/{*}rect")
    for rect in rects:
        x, y, wide, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + wide <= width
        assert y + high <= height
    hints = [hint.text or "" for hint in picture.findall(".//{*}g/{*}title")]
    assert any(hint.startswith("SSEDecoder.feed_data (llmstream/framing/sse.py): 3.3%") for hint in hints)
    shown = [text.text or "" for text in picture.findall(".//{*}text")]
    assert all(any(text.startswith(f"{layer} ") for text in shown) for layer in LAYERS)


def test_nothing_sampled_is_no_picture():
    assert flame_graph("empty", []) == ""


@pytest.mark.parametrize("family", BODIES)
def test_bodies_of_tools_hold_calls(family: str):
    dialect = dialect_class(family)()
    events = decode_body(b"".join(body_of(family, 40, "tools")), dialect)
    assert [event.tool_name for event in events if isinstance(event, ToolCall)] == ["weather", "weather"]
