"""Names in other SDKs: an AttributeError for one of their names shows ours.

The names are those of OpenAI's, Anthropic's, Google's and Vercel's SDKs, LiteLLM, LangChain, pydantic-ai,
openai-agents and instructor, read 2026-11. Options have a table of their own, in `streams.option_hints`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

__all__ = ["AGENT", "EVENT", "MESSAGE", "MODEL", "PACKAGE", "STREAM", "USAGE", "suggests"]

C = TypeVar("C", bound=type)

Remedies = Mapping[str, str]

_ASK: Final = "Write `await model.ask(prompt)`."
_RUN: Final = "Write `await agent.run(prompt)`."
_COLLECT: Final = "Write `message = await stream.collect()`; its text is `message.text`."
_STREAM_HAS_IT: Final = "A stream has it: read `ls.stream(...)` to its end, then `stream.{}`."


def _all(names: str, remedy: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), remedy)


PACKAGE: Final = {
    **_all(
        "completion acompletion complete generate generate_text chat ask create run responses invoke ainvoke",
        'Write await ls.Model("provider:model").ask(prompt)',
    ),
    **_all("run_sync stream_sync generate_sync", 'Write asyncio.run(ls.Model("provider:model").ask(prompt))'),
    **_all("stream_text streamText astream stream_async", 'Write ls.stream("provider:model", prompt)'),
    **_all(
        "Client AsyncClient OpenAI AsyncOpenAI AzureOpenAI AsyncAzureOpenAI Anthropic AsyncAnthropic "
        "ChatOpenAI ChatAnthropic ChatGoogleGenerativeAI ChatOllama GenerativeModel LLM ChatModel "
        "get_model init_chat_model",
        'Write ls.Model("provider:model", base_url=..., api_key=...)',
    ),
    **_all(
        "generate_object stream_object parse",
        "Write ls.stream(..., output=T), then objects() or object",
    ),
    **_all("function_tool Function tool_plain", "Write ls.tool"),
    **_all(
        "HumanMessage UserMessage",
        "Write ls.Message.user(text)",
    ),
    **_all("SystemMessage", "Write ls.Message.system(text)"),
    **_all("AIMessage AssistantMessage", "Write ls.Message.assistant(text)"),
    **_all("Runner AgentExecutor", "Write await ls.Agent(model, tools=[...]).run(prompt)"),
    **_all("RunContext RunContextWrapper", "Write ls.ToolContext"),
    **_all("APIError APIStatusError OpenAIError LLMError", "Write ls.LLMStreamError"),
    **_all("Timeout APITimeoutError TimeoutError", "Write ls.DeadlineExceeded"),
    **_all("RateLimitError", "Write ls.RateLimited"),
    **_all("Limiter AsyncLimiter", "Write ls.RateLimiter"),
    **_all("APIConnectionError", "Write ls.ConnectionFailed"),
}
"""Attributes of the package."""

MODEL: Final = {
    **_all("invoke ainvoke complete acomplete completion generate agenerate run predict chat", _ASK),
    **_all("create messages responses completions", _ASK),
    **_all("astream stream_text run_stream iter", "Write `model.stream(prompt)`."),
    **_all("run_sync ask_sync", "Write `asyncio.run(model.ask(prompt))`."),
    **_all("with_structured_output parse", "Write `await model.ask(prompt, output=T)`."),
    **_all("bind_tools bind", 'Write `ls.Model("provider:model", tools=[...])`.'),
}

AGENT: Final = {
    **_all("ask invoke ainvoke arun generate kickoff chat", _RUN),
    **_all("run_sync", "Write `asyncio.run(agent.run(prompt))`."),
    **_all("run_stream run_streamed iter astream", "Write `agent.stream(prompt)`."),
    **_all("tool tool_plain", "Write `ls.Agent(model, tools=[function])`."),
}

STREAM: Final = {
    **_all("choices content output_text get_final_message get_final_response until_done", _COLLECT),
    **_all("get_final_completion get_final_text final_output data result", _COLLECT),
    **_all("output get_output", "Write `object`, the value of `output=T`; the text is `text`."),
    **_all("text_stream textStream stream_text", "Write `async for text in stream.text_deltas()`."),
    **_all("stream_events event_stream", "Write `async for event in stream`."),
    **_all("all_messages new_messages to_input_list", "Write `stream.messages()`."),
    **_all("close", "Write `await stream.aclose()`, or `async with`."),
}
"""Attributes of streams and of runs of an agent."""

MESSAGE: Final = {
    **_all("choices", "This is the answer itself: its text is `text`, its tool calls are `tool_calls`."),
    **_all("content", "Its text is `text`, all of its content `parts`."),
    **_all("output_text final_output", "Its text is `text`."),
    **_all("output data result", "Its text is `text`. With `output=T`, `ask` and `run` return the value."),
    **{name: _STREAM_HAS_IT.format(name) for name in ("usage", "finish_reason")},
    **_all("stop_reason", _STREAM_HAS_IT.format("finish_reason")),
    **_all("model id", _STREAM_HAS_IT.format("response")),
}

EVENT: Final = {
    **_all("text", "The fragment of a TextDelta or ReasoningDelta is `delta`; others have none."),
    **_all(
        "choices content type",
        "Events are of several classes: `match` one, as in `case ls.TextDelta(text)`, or read only the "
        "text with `stream.text_deltas()`.",
    ),
}

USAGE: Final = {
    **_all("prompt_tokens request_tokens", "Write `input_tokens`."),
    **_all("completion_tokens response_tokens", "Write `output_tokens`."),
    **_all("cache_read_input_tokens cached_tokens", "Write `cached_input_tokens`."),
    **_all("cache_creation_input_tokens", "Write `cache_write_tokens`."),
}


def suggests(remedies: Remedies) -> Callable[[C], C]:
    """Class decorator: reading one of these names raises an AttributeError with its remedy.

    Descriptors and not `__getattr__`, which would triple the time of every attribute of the class.
    Type checkers and `dir` do not know the names.
    """

    def decorate(owner: C) -> C:
        for name, remedy in remedies.items():
            if not hasattr(owner, name):
                setattr(owner, name, _Hint(name, remedy))

        def listed(self: object) -> list[str]:
            return [n for n in object.__dir__(self) if n not in remedies or hasattr(self, n)]

        setattr(owner, "__dir__", listed)  # noqa: B010 - completion does not offer the hints
        return owner

    return decorate


class _Hint:
    """A name that the class does not have. A subclass or an instance may have it."""

    __slots__ = ("name", "remedy")

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no attribute {self.name!r}. {self.remedy}")
