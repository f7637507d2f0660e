"""Pydantic models as parameters and results of tools."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

import llmstream as ls
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel


class Item(BaseModel):
    name: str = Field(description="what it is")
    count: int = Field(default=1, ge=1)


@ls.tool
async def order(
    items: list[Item],
    note: Annotated[str, Field(description="for the kitchen", max_length=5)] = "",
    table: int = Field(default=4, description="where"),
) -> list[Item]:
    """Order."""
    assert all(isinstance(item, Item) for item in items)
    return [*items, Item(name=f"{note}{table}")]


def test_schema_has_models_and_fields() -> None:
    schema = order.spec.input_schema
    assert schema["required"] == ["items"]
    assert schema["properties"]["items"] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    assert schema["properties"]["note"] == {
        "description": "for the kitchen",
        "type": "string",
        "maxLength": 5,
        "default": "",
    }
    assert schema["properties"]["table"] == {"description": "where", "type": "integer", "default": 4}
    assert schema["$defs"]["Item"]["properties"]["name"] == {"description": "what it is", "type": "string"}


async def test_models_come_and_go() -> None:
    found = await order.run('{"items":[{"name":"tea"}],"note":"hot"}')
    assert found.content == '[{"name":"tea","count":1},{"name":"hot4","count":1}]'
    assert found.output == [{"name": "tea", "count": 1}, {"name": "hot4", "count": 1}]
    assert found.value[0] == Item(name="tea")


async def test_output_may_hold_a_model() -> None:
    @ls.tool
    def menu() -> ls.ToolOutput:
        """Menu."""
        return ls.ToolOutput({"today": Item(name="soup")}, value=7)

    assert (await menu.run("")).content == '{"today":{"name":"soup","count":1}}'


async def test_invalid_value_is_shown_to_the_model() -> None:
    found = await order.run('{"items":[{"name":"tea","count":0}]}')
    assert isinstance(found.exception, ls.errors.InvalidToolInput)
    assert "`count`: Input should be greater than or equal to 1 at `items[0]`" in found.content


async def test_null_for_a_default_is_left_out() -> None:
    found = await order.run('{"items":[{"name":"tea","count":null}],"note":null,"table":null}')
    assert found.content == '[{"name":"tea","count":1},{"name":"4","count":1}]'


async def test_a_model_repairs_its_call() -> None:
    def turn(arguments: dict[str, Any]) -> Turn:
        return Turn(calls=(Call("order", arguments),))

    model = ScriptedModel(turn({"items": [{}]}), turn({"items": [{"name": "tea"}]}), "Done.")
    run = ls.Agent(model, tools=[order]).stream("Tea")
    await run.collect()
    first, second = (step.statuses[0] for step in run.steps[:2])
    assert "`name`: Field required" in str(first.error)
    assert second.error is None
