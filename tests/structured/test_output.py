"""Types as schemas that vendors take, and the ways of asking for them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

import llmstream as ls
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat, Quirks, SchemaQuirks, ToolQuirks
from llmstream.dialects.schemas import strict_problem
from llmstream.providers.registry import find_provider
from llmstream.request import ResponseFormat
from llmstream.structured import Output, in_mode


class Node(msgspec.Struct):
    """A node of a tree."""

    name: Annotated[str, msgspec.Meta(description="unique")]
    kind: Literal["a", "b"] = "a"
    children: list[Node] = []


class Red(msgspec.Struct, tag=True):
    depth: int


class Blue(msgspec.Struct, tag=True):
    depth: float


@dataclasses.dataclass
class Pair:
    left: Node
    right: Node | None = None


class Row(TypedDict):
    cells: list[str]


TYPES: list[Any] = [Node, list[Node], Red | Blue, Pair, Row, Literal["x", "y"], int, Pair | None, set[str]]


@pytest.mark.parametrize("output_type", TYPES, ids=str)
def test_root_is_object_strict_modes_take_it(output_type: Any) -> None:
    output = Output(output_type)
    assert output.schema["type"] == "object"
    assert "discriminator" not in str(output.schema)
    assert "default" not in str(output.schema)
    http = OpenAIChat().encode(request(output), provider="openai").http
    sent = msgspec.json.decode(http.body)["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert strict_problem(sent["schema"]) is None
    assert all(strict_problem(inner) is None for inner in sent["schema"].get("$defs", {}).values())


def test_recursive_type_keeps_its_definition() -> None:
    schema = Output(Node).schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"].keys() == {"Node"}
    assert schema["description"] == "A node of a tree."
    assert Output(Red).schema.get("$defs") is None


@pytest.mark.parametrize(
    ("output_type", "name", "wrapper"),
    [
        (Node, "Node", None),
        (list[Node], "Node_list", "items"),
        (Red | Blue, "response", "value"),
        (dict[str, int], "dict", None),
        (tuple[int, ...], "int_list", "items"),
        (Annotated[list[Node], msgspec.Meta(min_length=1)], "Node_list", "items"),
    ],
    ids=str,
)
def test_names_and_wrappings(output_type: Any, name: str, wrapper: str | None) -> None:
    output = Output(output_type)
    assert (output.format.name, output.wrapper) == (name, wrapper)
    assert Output(output_type, name="my type!").format.name == "my_type"


class Plain:
    name: str


@dataclasses.dataclass
class Cat:
    name: str


@dataclasses.dataclass
class Dog:
    name: str


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        (Plain, "Use a dataclass, a TypedDict, a msgspec Struct, a pydantic model"),
        (list[Plain], r"It has a part of the type <class '.*Plain'>. Use a dataclass"),
        (Red(1), "write output=Red, its type"),
        (Cat | Dog, "Use pydantic models, or tagged Structs"),
    ],
)
def test_remedy_speaks_of_our_own_options(output: Any, remedy: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=remedy) as refused:
        Output(output)
    assert "schema_hook" not in str(refused.value)


def test_senseless_type_is_refused() -> None:
    """A type without a schema is refused too."""
    with pytest.raises(ls.InvalidRequest, match="no JSON schema"):
        ls.Model("sim:demo").request("x", output=complex)
    with pytest.raises(ls.InvalidRequest, match="mode is"):
        Output(Node, mode="magic")  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidRequest, match="repair is"):
        Output(Node, repair=-1)


def test_nulls_go_where_nothing_can_be_null() -> None:
    output = Output(list[Pair])
    text = '{"items": [{"left": {"name": "a", "kind": null, "children": null}, "right": null}]}'
    assert output.read(text) == [Pair(Node("a"))]
    with pytest.raises(ls.InvalidOutput, match="got `null`"):
        Output(Node).read('{"name": null}')
    union = Output(Red | Blue)
    assert union.read('{"value": {"type": "Blue", "depth": 1}}') == Blue(1.0)


def request(output: Output, **more: Any) -> ls.Request:
    model = more.pop("model", "m")
    return ls.Request(model=model, messages=(ls.Message.user("x"),), response_format=output.format, **more)


TOOL = ls.ToolSpec("Node", "Another one.", {"type": "object", "properties": {}})
THINKING = ls.ReasoningOptions(effort="high")


def way(dialect: Any, **more: Any) -> str:
    """The mode that is chosen."""
    wanted = request(Output(Node), **more)
    found = in_mode(wanted, dialect.output_abilities(wanted))
    if found.tool is not None:
        return "tool"
    wanted_format = found.request.response_format
    return "json_schema" if wanted_format is not None and wanted_format.schema else "prompt"


def test_each_vendor_gets_its_best_mode() -> None:
    assert way(OpenAIChat()) == "json_schema"
    assert way(OpenAIChat(Quirks(schemas=SchemaQuirks(output="json_object")))) == "tool"
    assert (
        way(OpenAIChat(Quirks(schemas=SchemaQuirks(output="json_object"), tools=ToolQuirks(functions=False))))
        == "prompt"
    )
    only_auto = Quirks(schemas=SchemaQuirks(output="none"), tools=ToolQuirks(choice=frozenset({"auto"})))
    assert way(OpenAIChat(only_auto)) == "prompt"
    no_force = Quirks(
        schemas=SchemaQuirks(output="json_object"), tools=ToolQuirks(choice_while_thinking=False)
    )
    assert way(OpenAIChat(no_force), reasoning=THINKING) == "prompt"
    assert way(Anthropic(), model="claude-sonnet-4-5") == "json_schema"
    assert way(Anthropic(), model="claude-3-5-haiku-latest") == "tool"
    assert way(Anthropic(), model="claude-3-7-sonnet-latest", reasoning=THINKING) == "prompt"
    assert way(Ollama()) == "json_schema"
    assert way(find_provider("deepseek").dialect) == "tool"


def test_forced_tool_has_an_unused_name() -> None:
    output = Output(Node, mode="tool")
    alone = in_mode(request(output), ())
    assert alone.request.tool_choice == ls.NamedTool("Node")
    assert alone.request.response_format is None
    beside = in_mode(request(output, tools=(TOOL,)), ())
    assert beside.tool == "Node_answer"
    assert beside.request.tool_choice == "required"


def test_prompt_asks_for_json_if_supported() -> None:
    output = Output(Node, mode="prompt")
    knows = in_mode(request(output), ("json_object",)).request
    assert knows.response_format == ResponseFormat()
    assert '"title":"Node"' in knows.messages[0].text
    assert in_mode(request(output), ()).request.response_format is None


@pytest.mark.parametrize("able", [("json_schema",), ("json_schema", "tool"), ("tool", "json_object")])
def test_unset_mode_is_native_with_json(able) -> None:
    """The output has a schema and no mode; the model knows JSON."""
    plain = ls.Request(model="m", response_format=ResponseFormat({"type": "object"}))
    assert in_mode(plain, able) == (plain, None)


def test_unset_mode_is_tool_or_prompt() -> None:
    """The output has a schema and no mode; the model knows no JSON."""
    plain = ls.Request(model="m", response_format=ResponseFormat({"type": "object"}))
    by_tool = in_mode(plain, ("tool",))
    assert (by_tool.tool, by_tool.request.tool_choice) == ("response", ls.NamedTool("response"))
    assert by_tool.request.response_format is None
    format_instruction = in_mode(plain, ())
    assert format_instruction.tool is None
    assert '{"type":"object"}' in format_instruction.request.messages[0].text


FENCES = {
    "line feeds": "```" + "\n" * 200_000 + "x",
    "spaces": "```" + " " * 200_000 + "x",
    "fences": "```\n" * 100_000,
    "one line of fences": "```" * 100_000 + "\n",
    "fences and lines": "```a\n\n" * 50_000,
}


@pytest.mark.parametrize("text", FENCES.values(), ids=list(FENCES))
def test_fences_are_looked_for_once(text: str) -> None:
    """Each of these took hours, quadratic or cubic time, with a pattern of overlapping quantifiers."""
    with pytest.raises(ls.InvalidOutput):
        Output(int).read(text)


@pytest.mark.parametrize(
    "text",
    [
        "```json\n7\n```",
        "So:\n```\n\n7\n\n```\nDone.",
        "``` JSON \n7```",
        "```\nprose\n```\n```json\n7\n```",
        "`x` ```inline code```\n```json\n7\n```",
    ],
)
def test_a_value_in_a_fence_is_found(text: str) -> None:
    assert Output(int).read(text) == 7


def test_an_error_quotes_no_long_key() -> None:
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        x: int

    with pytest.raises(ls.InvalidOutput) as caught:
        Output(Strict).read('{"x": 1, "' + "k" * 200_000 + '": 2}')
    assert len(str(caught.value)) < 600
    assert "unknown field" in caught.value.message


def test_integral_floats_are_integers() -> None:
    """To JSON Schema 3.0 is an integer."""
    output = Output(list[int])
    assert output.read('{"items":[1.0,2]}') == [1, 2]
