"""Which public name is described on which page of the reference."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INTERNAL", "PAGES", "Page"]

INTERNAL = {"Model.opened_by", "Model.call", "Model.reattached_call", "Model.known_secrets"}
"""Methods that other packages of ours call; they are not part of the reference."""


class Page(NamedTuple):
    """A page of the reference.

    names:   in the order of the page, as they are written after `ls.`, separated by spaces; "agent.*" stands
             for the rest of that module's `__all__`
    options: names of TypedDicts whose fields are shown as a table of options
    """

    file: str
    title: str
    intro: str
    names: str
    options: tuple[str, ...] = ()


PAGES = (
    Page(
        "models.md",
        "Models and streams",
        "Requests to a model and their responses. The guide is [Streaming](../guides/streaming.md).",
        """
            stream Model EventStream ResponseInfo ModelCheck TokenCount Capabilities ResumeToken Request
            Provider streams.Prompt streams.ApiKey
        """,
    ),
    Page(
        "options.md",
        "Options",
        "The keyword arguments of `stream`, `Model.stream`, `Model.ask`, `Model.events` and `Agent`, and the "
        "types they take. A `Model` takes them too, as defaults for its calls, except `headers`, `retry`, "
        "`deadlines` and `observe`, which it has itself. The guide is "
        "[Streaming](../guides/streaming.md#options).",
        """
            Settings ReasoningOptions Output NamedTool Deadlines Retry RateLimiter StreamLimits DownloadLimits
        """,
        options=("streams.options.Options",),
    ),
    Page(
        "agents.md",
        "Agents",
        "The tool loop. The guide is [Agents](../guides/agents.md).",
        "Agent AgentRun StepPlan Hooks Approve Deny Suspension Journal agent.* agent.context.*",
    ),
    Page(
        "tools.md",
        "Tools",
        "Functions that the model may call. The guide is [Tools](../guides/tools.md).",
        """
            tool Tool ToolSpec ProviderTool ToolContext ToolOutput ToolCallStatus tools.ToolOutcome
            tools.tool_from_function
        """,
    ),
    Page(
        "chats.md",
        "Conversations",
        "Messages and what they consist of. The guide is [Conversations](../guides/conversations.md).",
        "Chat Message Role Image Audio Document chats.*",
    ),
    Page(
        "events.md",
        "Events",
        "What a stream yields. [Events](../events.md) has the guarantees of each, and transcripts.",
        "Event FinishReason Usage ErrorInfo events.*",
    ),
    Page(
        "errors.md",
        "Errors",
        "Every exception. The guide is [Errors and retries](../guides/errors-and-retries.md).",
        "LLMStreamError errors.*",
    ),
    Page(
        "observability.md",
        "Observability and cost",
        "The guides are [Observability](../guides/observability.md) and [Cost](../guides/cost.md).",
        """
            Observation AttemptStarted AttemptFailed FirstContent CallFinished telemetry.* prices.price
        """,
    ),
    Page(
        "middleware.md",
        "Middleware",
        "Wrappers around a model. The guide is [Middleware](../guides/middleware.md).",
        "middleware.*",
    ),
    Page(
        "testing.md",
        "Testing",
        "Scripted models, servers and checks. The guide is [Testing](../guides/testing.md).",
        "testing.*",
    ),
    Page(
        "mcp.md",
        "MCP",
        "Tools of MCP servers. The guide is [MCP servers](../guides/mcp.md).",
        "mcp.mcp_tools mcp.*",
    ),
    Page(
        "serve.md",
        "Serving",
        "Streams and runs as HTTP responses. The recipe is [Web servers](../recipes/web-servers.md).",
        """
            serve.Body serve.starlette.respond serve.aiohttp.respond serve.asgi.respond
            serve.wsgi.respond serve.*
        """,
    ),
    Page(
        "ui.md",
        "User interfaces",
        "Requests and responses in protocols of user interfaces. The guide is [AG-UI](../guides/ag-ui.md).",
        "ui.ag_ui.read ui.ag_ui.RunInput ui.ag_ui.Writer ui.ag_ui.*",
    ),
    Page(
        "low-level.md",
        "Low-level API",
        "The layers below a stream. The guide is [Low-level API](../guides/low-level-api.md).",
        "Accumulator grammar.* partial_json.* framing.* chunks.*",
    ),
)
