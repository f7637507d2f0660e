"""The tools of a conversation as one set, with unique names.

A `ToolSet` is created once, where tools are passed in: in the options of a stream, a model or an agent, in
the plan of a step, in an `Accumulator`. There functions become tools and names are checked; code below uses
the set unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from llmstream.chats.content import ToolCall, own_values
from llmstream.errors import InvalidRequest, InvalidToolInput, ToolError, UnknownTool
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.approval import Approve
from llmstream.tools.signature import ToolContext, object_text, takes
from llmstream.tools.tool import AnyTool, ContextOf, LiveTools, MethodTool, Tool, tool_from_function

__all__ = ["ToolSet", "unreadable_input"]

_log = logging.getLogger("llmstream")

# Maximum length of a value quoted in an error, in characters.
_MAX_SHOWN: Final = 80


class ToolSet:
    """Tools with unique names, in the order given.

    A `LiveTools` list contributes its content at the time the set is created; `current()` returns a set with
    its current content.

    specs: the definitions for the model, as in `Request.tools`
    eager: names of the tools whose calls may start before the end of the response

    earlier: the set before its live lists changed: each name stays with the source that had it
    raises:  InvalidRequest for anything but a tool, and if two tools have the same name
    """

    def __init__(self, tools: Iterable[AnyTool] = (), *, earlier: ToolSet | None = None) -> None:
        self._sources = _wrapped(tools)
        # Initially a duplicate name is an error of the application; later it means that a server changed its
        # list.
        self._strict = earlier is None
        # Owner by name: a server whose list changes can add names, but never take over one of the
        # application.
        self._owners: dict[str, int] = {} if earlier is None else dict(earlier._owners)
        # Shared with every later set, so that a name is logged once for all of them.
        self._left_out: set[str] = set() if earlier is None else earlier._left_out
        self._changes = any(isinstance(source, LiveTools) for source in self._sources)
        self._local: dict[str, Tool] = {}
        self._declarations: dict[str, ToolSpec | ProviderTool] = {}
        self._tools = self._registered()
        # Vendors' and declared tools are already definitions.
        self.specs = tuple([t.spec if isinstance(t, Tool) else t for t in self._tools])
        self.eager = frozenset([name for name, tool in self._local.items() if tool.eager])
        self._declared: ToolSet | None = None if self._local else self

    @classmethod
    def of(cls, tools: Iterable[AnyTool]) -> ToolSet:
        """The set of these tools; a ToolSet is returned unchanged."""
        return tools if isinstance(tools, ToolSet) else cls(tools)

    def current(self) -> ToolSet:
        """The set with the current content of its live lists; itself if it has none."""
        return ToolSet(self._sources, earlier=self) if self._changes else self

    def declared(self) -> ToolSet:
        """The same definitions for the model, without local tools."""
        if self._declared is None:
            self._declared = ToolSet(self.specs)
        return self._declared

    def __iter__(self) -> Iterator[Tool | ToolSpec | ProviderTool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __bool__(self) -> bool:
        return bool(self._sources)  # an empty live list may be filled later

    def __repr__(self) -> str:
        return f"ToolSet({list(self._tools)!r})"

    def _registered(self) -> tuple[Tool | ToolSpec | ProviderTool, ...]:
        """The current tools; also registers them by name."""
        found: list[Tool | ToolSpec | ProviderTool] = []
        names: set[str] = set()
        for at, source in enumerate(self._sources):
            for each in source if isinstance(source, LiveTools) else (source,):
                name = each.name or each.type if isinstance(each, ProviderTool) else each.name
                # The first source takes precedence, and within a live list the first tool.
                if self._owners.setdefault(name, at) != at or name in names:
                    self._refuse(name)
                    continue
                names.add(name)
                found.append(each)
                if isinstance(each, Tool):
                    self._local[name] = each
                    continue
                self._declarations[name] = each
                if isinstance(each, ProviderTool):
                    self._declarations[each.type] = each  # some vendors call it by its type
        return tuple(found)

    def _refuse(self, name: str) -> None:
        """Handles a second tool of a name; logs each name once, as the lists are read at every step."""
        if self._strict:
            raise InvalidRequest(f"two tools are called {name!r}. Pass name= to one of them.")
        if name not in self._left_out:
            self._left_out.add(name)
            _log.warning("a new tool was left out: another one is called %r already", name)

    def find(self, name: str) -> Tool | None:
        """The local tool of that name, or None."""
        return self._local.get(name)

    def declaration(self, name: str) -> ToolSpec | ProviderTool | None:
        """The declared tool of that name or type, whose calls run outside this process; or None."""
        return self._declarations.get(name)

    def runnable(self, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """The local calls, each id once: without those of the vendor and of declared tools."""
        found: dict[str, ToolCall] = {}
        for call in calls:
            if not call.provider_executed and call.name not in self._declarations:
                # Some servers repeat a call; it must not run twice.
                found.setdefault(call.id, call)
        return list(found.values())

    def error_of(self, call: ToolCall) -> ToolError | None:
        """Why a call cannot run: an unknown tool or invalid arguments; None if it can."""
        found = self.refusal(call)
        if found is None:
            try:
                # Only the error of the check is needed, not the arguments.
                self._local[call.name].named_arguments(call.arguments)
            except InvalidToolInput as error:
                return error
        return found

    def refusal(self, call: ToolCall) -> ToolError | None:
        """Why a call cannot run, apart from its arguments: an unknown tool or a broken call."""
        if self.find(call.name) is None:
            names = ", ".join([t.name for t in self._tools if t.name])
            return UnknownTool(f"There is no tool {call.name!r}. The tools are: {names or 'none'}.")
        return _broken_error(call) if _is_broken(call) else None

    async def approval_needed(self, call: ToolCall, context: ContextOf | None = None) -> bool:
        """Whether a call needs approval; true if the tool's predicate fails.

        A call that cannot run needs none: the model receives the error.
        """
        found = self._local.get(call.name)
        if found is None or found.needs_approval is False or _is_broken(call):
            return False
        predicate = found.needs_approval
        # Created only for a predicate that takes it: a context copies the conversation.
        wanted = context is not None and callable(predicate) and takes(predicate, 2)
        known = context(call) if wanted and context is not None else ToolContext(call.id, call.name)
        try:
            return await found.approval_needed(call.arguments, known)
        # If the predicate fails, the call needs approval.
        except Exception:
            return True

    def approved(self, call: ToolCall, decision: Approve) -> ToolCall:
        """The approved call, with the arguments of the decision if it has any.

        raises: InvalidRequest if these do not fit the tool: the model cannot repair a person's arguments
        """
        if decision.arguments is None:
            return call
        arguments = msgspec.json.encode(dict(decision.arguments)).decode()
        # Metadata may hold the vendor's signature of the original arguments.
        changed = msgspec.structs.replace(call, arguments=arguments, metadata=None)
        error = self.error_of(changed)
        if error is not None:
            raise InvalidRequest(f"the arguments that were approved do not fit: {error.message}")
        return changed


def unreadable_input(call: ToolCall) -> InvalidToolInput | None:
    """The error of an external call whose arguments are not a JSON object.

    This is the only check, because a `ToolSpec` has no function, only a schema.
    """
    try:
        msgspec.json.decode(object_text(call.arguments), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return InvalidToolInput(f"Invalid arguments for {call.name}: not a JSON object ({error})")
    return _broken_error(call) if _is_broken(call) else None


def _wrapped(tools: Iterable[AnyTool]) -> tuple[Tool | ToolSpec | ProviderTool | LiveTools, ...]:
    """The tools with plain functions wrapped; live lists are not copied.

    raises: InvalidRequest for anything but a tool
    """
    # Iterating it would copy its content and miss later changes of the server.
    if isinstance(tools, LiveTools):
        return (tools,)
    if not isinstance(tools, Iterable):
        # `tools=weather` is the likely mistake.
        hint = f" Write tools=[{getattr(tools, '__name__', 'tool')}]." if callable(tools) else ""
        raise InvalidRequest(f"tools must be a list of tools, got {tools!r}.{hint}")
    found: list[Tool | ToolSpec | ProviderTool | LiveTools] = []
    for given in tools:
        if isinstance(given, Tool | ToolSpec | ProviderTool | LiveTools):
            found.append(given)
        elif isinstance(given, MethodTool):
            raise InvalidRequest(
                f"{given!r} is a method without its object. Pass it bound to an object: obj.method."
            )
        elif callable(given):
            found.append(tool_from_function(given))
        else:
            raise InvalidRequest(f"{_shown(given)} is not a tool. {_remedy(given)}")
    return tuple(found)


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _remedy(given: object) -> str:
    if hasattr(given, "as_tool"):
        return "Pass an agent as agent.as_tool()."
    if isinstance(given, dict):
        return _remedy_for_dict(given)
    return "Pass a function, a Tool, a ToolSpec or a ProviderTool."


def _remedy_for_dict(given: dict[str, Any]) -> str:
    """The corrected value for a tool written in a vendor's format."""
    function = given.get("function")
    tool = function if isinstance(function, dict) else given
    name = tool.get("name")
    kind = given.get("type", "function")
    if not isinstance(name, str) or kind not in ("function", "custom"):
        return f"For a tool that the vendor runs write ls.ProviderTool({kind!r}, name, options)."
    return (
        f"Pass the Python function {name} itself: its signature becomes the schema. For a tool that runs "
        f"elsewhere write ls.ToolSpec({name!r}, description, schema)."
    )


def _is_broken(call: ToolCall) -> bool:
    """Whether the vendor marked the call as broken although its arguments are complete JSON.

    Arguments that are not JSON are left to the tool, whose error has the details.
    """
    if not own_values(call.metadata).get("invalid"):
        return False
    try:
        msgspec.json.decode(call.arguments.strip() or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _broken_error(call: ToolCall) -> InvalidToolInput:
    return InvalidToolInput(f"The call of {call.name} arrived broken and was not run. Call it again.")
