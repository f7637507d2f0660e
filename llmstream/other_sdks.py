"""Names in other SDKs: the error for one of their attributes, or for one of their options, shows ours.

The names are those of OpenAI's, Anthropic's, Google's, Ollama's and Vercel's SDKs, LiteLLM, LangChain,
LangGraph, pydantic-ai, openai-agents, smolagents and instructor, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NoReturn, TypeVar

__all__ = [
    "AGENT",
    "EVENT",
    "MESSAGE",
    "MODEL",
    "PACKAGE",
    "STREAM",
    "USAGE",
    "agent_hint",
    "hint_for",
    "listed",
    "suggests",
]


# Attributes of classes and of the package.

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


# Options of calls and agents.

_OF_THE_MODEL: Final = (
    "Model(..., {}=...) takes it: an address, a key or a session belongs to the model, not to one call."
)
_OF_ONE_VENDOR: Final = "Only some vendors know it: provider_options={{'PROVIDER': {{'{}': ...}}}}."

# Our options by their names in other SDKs: OpenAI, Anthropic, google-genai, Ollama, LangChain, LiteLLM,
# pydantic-ai, instructor and Vercel's SDK, read 2026-11.
_FOREIGN: Final = {
    "max_output_tokens=": (
        *("max_tokens", "max_completion_tokens", "max_new_tokens", "max_tokens_to_sample"),
        *("num_predict", "maxOutputTokens", "maxTokens"),
    ),
    "deadlines=ls.Deadlines(total_s=...)": (
        *("timeout", "timeout_s", "request_timeout", "total_timeout", "stream_timeout"),
    ),
    "retry=ls.Retry(max_retries=...)": ("max_retries", "retries", "num_retries", "maxRetries"),
    "stop=": ("stop_sequences", "stop_sequence", "stopSequences"),
    "instructions=": ("system", "system_prompt", "system_message", "system_instruction", "developer"),
    "output=": (
        *(
            "response_format",
            "response_model",
            "response_schema",
            "result_type",
            "output_type",
            "output_format",
        ),
        *("text_format", "json_schema", "schema", "format", "output_schema"),
    ),
    "reasoning=": (
        *("reasoning_effort", "effort", "thinking", "thinking_budget", "thinking_config", "think"),
        *("reasoning_tokens", "budget_tokens"),
    ),
    "tools=": ("functions", "toolsets", "tool_functions"),
    "tool_choice=": ("function_call", "tool_config", "toolChoice"),
    "headers=": ("extra_headers", "default_headers"),
    "provider_options={'PROVIDER': {...}}": ("extra_body", "extra_query", "body", "model_kwargs", "extra"),
    "settings=": ("model_settings", "generation_config", "sampling", "config"),
    "parallel_tool_calls=": ("disable_parallel_tool_use", "parallelToolCalls"),
    "background=True": ("resume",),
    "observe=": ("callbacks", "callback", "hooks", "on_event"),
    "errors=": ("raise_errors", "raise_on_error"),
}

# The same for options that only an agent has: pydantic-ai, openai-agents, LangGraph, smolagents and Vercel's
# SDK.
_AGENT_ONLY: Final = {
    "max_steps=": ("max_turns", "max_iterations", "max_iter", "max_loops", "recursion_limit", "maxSteps"),
    "instructions=": (
        "system",
        "system_prompt",
        "system_message",
        "system_instruction",
        "developer",
        "prompt",
    ),
    "deps=": ("context", "dependencies", "deps_type", "state", "app", "run_context"),
    "tool_timeout_s=": ("tool_timeout", "tool_timeout_seconds"),
    "context_effects=": ("history_processors", "memory", "compaction", "trim_messages"),
    "stop_when=": ("stop_condition", "termination_condition", "usage_limits", "stopWhen"),
    "prepare_step=": ("prepareStep", "pre_model_hook"),
    "approve=": ("human_in_the_loop", "on_approval", "interrupt_before"),
    "empty_retries=": ("output_retries", "result_retries"),
    "hooks=": ("guardrails", "input_guardrails", "output_guardrails", "middleware", "callbacks"),
}

_BY_NAME: Final = {name: ours for ours, names in _FOREIGN.items() for name in names}

_MODELS_OWN: Final = frozenset(
    {"api_key", "base_url", "session", "provider", "limits", "downloads", "limiter", "http_client"}
)
_VENDORS_OWN: Final = frozenset(
    {
        *(
            "n",
            "logprobs",
            "top_logprobs",
            "logit_bias",
            "user",
            "metadata",
            "store",
            "service_tier",
            "min_p",
        ),
        *(
            "safety_settings",
            "safety_identifier",
            "prompt_cache_key",
            "cache_control",
            "verbosity",
            "keep_alive",
        ),
        *("repetition_penalty", "truncation", "previous_response_id", "include", "modalities", "audio"),
    }
)
_CONVERSATION: Final = frozenset({"messages", "prompt", "input", "contents", "question", "query"})


def hint_for(name: str, known: Collection[str]) -> str:
    """A hint for an unknown option: its name here, or a similar one; "" without any."""
    if name in _BY_NAME:
        return f"Did you mean {_BY_NAME[name]}?"
    if name in _MODELS_OWN:
        return _OF_THE_MODEL.format("session" if name == "http_client" else name)
    if name in _VENDORS_OWN:
        return _OF_ONE_VENDOR.format(name)
    if name in _CONVERSATION:
        return "The conversation is the prompt, without a name: stream(model, messages)."
    if name in ("stream", "stream_options", "streaming"):
        return (
            "Leave it out: every answer is a stream; `await stream.collect()` returns the complete message."
        )
    import difflib  # only for an error

    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}=?" if close else ""


def listed(known: Collection[str]) -> str:
    """All options, listed for a name without a hint."""
    return (
        f"Options: {', '.join(sorted(known))}. Pass options of a single vendor in provider_options, as "
        "provider_options={'PROVIDER': {...}}."
    )


def agent_hint(name: str, known: Collection[str]) -> str:
    """A hint for an unknown option of an agent, which has more options than a stream."""
    ours = next((ours for ours, names in _AGENT_ONLY.items() if name in names), None)
    return f"Did you mean {ours}?" if ours else hint_for(name, known)
