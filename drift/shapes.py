"""Shapes: the types of any SDK as one small algebra, whichever library they are written with.

Read are pydantic models, TypedDicts, dataclasses, msgspec Structs, enums, aliases and unions, also
behind Annotated, and the service models of botocore.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ForwardRef, NamedTuple, TypeAlias

import msgspec

__all__ = ["Choice", "Field", "Items", "Leaf", "Mapped", "Record", "Shape", "records", "shape_of", "text_of"]


class Leaf(NamedTuple):
    """A value without parts.

    kind:  "string", "integer", "number", "boolean", "bytes", "time" or "any"
    values: the values that the SDK knows, such as those of a Literal or an enum
    """

    kind: str
    values: tuple[Any, ...] = ()


class Items(NamedTuple):
    """A list."""

    item: Shape


class Mapped(NamedTuple):
    """An object with keys of any name."""

    value: Shape


class Choice(NamedTuple):
    """One of several shapes."""

    options: tuple[Shape, ...]


class Field(NamedTuple):
    """A field of an object; its name is the one on the wire."""

    shape: Shape
    required: bool


class Record:
    """An object with named fields, which are read when they are asked for: types may hold themselves."""

    def __init__(self, name: str, read: Callable[[], Mapping[str, Field]]) -> None:
        self.name = name
        self._read = read

    @functools.cached_property
    def fields(self) -> Mapping[str, Field]:
        """Name on the wire to the field."""
        return self._read()

    @property
    def tag(self) -> str | None:
        """The value that tells this object from others of its union, where it has one."""
        for name in ("type", "event_type", "event", "object"):
            found = self.fields.get(name)
            if found is not None and isinstance(found.shape, Leaf) and len(found.shape.values) == 1:
                return str(found.shape.values[0])
        return None


Shape: TypeAlias = Leaf | Items | Mapped | Choice | Record

ANY = Leaf("any")
_NOTHING = Leaf("nothing")

_SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    bytes: "bytes",
    datetime.datetime: "time",
    datetime.date: "time",
}
_LISTS = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS = ("Annotated", "Required", "NotRequired", "ReadOnly", "ClassVar", "Final")


def shape_of(annotation: Any, module: str | None = None) -> Shape:
    """The shape of a type; of what this module does not know it is `ANY`.

    module: where the annotation stands, for names that are not resolved yet
    """
    if isinstance(annotation, (str, ForwardRef)):
        return _named(annotation, module)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    alias = getattr(annotation, "__value__", None)  # type X = ...; TypeAliasType
    if alias is not None:
        alias = alias[args] if args and getattr(alias, "__parameters__", ()) else alias
        return shape_of(alias, getattr(annotation, "__module__", module))
    if getattr(annotation, "__supertype__", None) is not None:  # NewType
        return shape_of(annotation.__supertype__, module)
    if isinstance(annotation, typing.TypeVar):
        return shape_of(annotation.__bound__, module) if annotation.__bound__ is not None else ANY
    if origin is not None and (hasattr(annotation, "__metadata__") or _name_of(origin) in _WRAPPERS):
        return shape_of(args[0] if _name_of(origin) in _WRAPPERS else origin, module)
    if _name_of(origin) == "Literal":
        return Leaf(_kind_of(args), args)
    if origin is typing.Union or origin is types.UnionType:
        return _union([shape_of(arg, module) for arg in args if arg not in (None, type(None))])
    if origin in _LISTS or annotation in _LISTS:
        return Items(_union([shape_of(arg, module) for arg in args if arg is not ...] or [ANY]))
    if origin in _MAPS or annotation in _MAPS:
        return Mapped(shape_of(args[1], module) if len(args) == 2 else ANY)
    return _class(annotation if origin is None else origin)


def _name_of(form: Any) -> str:
    return getattr(form, "_name", None) or getattr(form, "__name__", "") or ""


def _kind_of(values: tuple[Any, ...]) -> str:
    return _SCALARS.get(type(values[0]), "string") if values else "string"


def _named(name: str | ForwardRef, module: str | None) -> Shape:
    text = name if isinstance(name, str) else name.__forward_arg__
    space = vars(sys.modules[module]) if module in sys.modules else {}
    try:
        return shape_of(eval(text, dict(space)), module)  # as typing.get_type_hints does
    except Exception:  # a name that is imported for type checkers only
        return ANY


def _union(shapes: list[Shape]) -> Shape:
    """One shape of several: nested unions are flat, and literals beside a plain string are its values."""
    flat: list[Shape] = []
    for shape in shapes:
        flat.extend(shape.options if isinstance(shape, Choice) else [shape])
    options: list[Shape] = []
    for shape in flat:
        if shape == _NOTHING:
            continue
        same = next((o for o in options if _merges(o, shape)), None)
        if same is None:
            options.append(shape)
        elif isinstance(same, Leaf) and isinstance(shape, Leaf):
            values = tuple(dict.fromkeys((*same.values, *shape.values)))
            options[options.index(same)] = Leaf(same.kind, values)
    known = [shape for shape in options if shape != ANY] or options
    return known[0] if len(known) == 1 else Choice(tuple(known))


def _merges(one: Shape, other: Shape) -> bool:
    if isinstance(one, Record) and isinstance(other, Record):
        return one is other
    return one == other or (isinstance(one, Leaf) and isinstance(other, Leaf) and one.kind == other.kind)


@functools.cache
def _class(kind: Any) -> Shape:
    if not inspect.isclass(kind):
        return ANY
    if issubclass(kind, enum.Enum):
        values = tuple(member.value for member in kind if "UNSPECIFIED" not in str(member.value))
        return Leaf(_kind_of(values), values)
    for base, name in _SCALARS.items():
        if kind is base:
            return Leaf(name)
    if kind.__name__ == "Unset" or "is_unknown" in getattr(kind, "model_fields", ()):
        return _NOTHING  # Speakeasy's stand-ins for what is absent and for what the SDK does not know
    fields = _reader(kind)
    if fields is _pydantic and _is_wrapper(kind):
        (field,) = kind.model_fields.values()  # type: ignore[attr-defined]  # pydantic, see `_reader`
        return shape_of(field.annotation, kind.__module__)
    if fields is not None:
        return Record(kind.__qualname__, functools.partial(fields, kind))
    scalar = next((name for base, name in _SCALARS.items() if issubclass(kind, base)), None)
    return Leaf(scalar) if scalar else ANY


def _reader(kind: type) -> Callable[[Any], Mapping[str, Field]] | None:
    """How the fields of a class are read, by the library that it is written with."""
    if kind.__module__.startswith("pydantic."):
        return None  # a model of any kind
    if hasattr(kind, "model_fields"):
        return _pydantic
    if issubclass(kind, msgspec.Struct):
        return _msgspec
    if dataclasses.is_dataclass(kind):
        return _dataclass
    if hasattr(kind, "__total__") and hasattr(kind, "__annotations__"):
        return _typed_dict
    return None


def _is_wrapper(kind: Any) -> bool:
    """Whether a model of one field is written as that field alone, such as ollama's Image."""
    serializers = kind.__pydantic_decorators__.model_serializers.items()
    own = (found.info.mode for name, found in serializers if name in vars(kind))
    return len(kind.model_fields) == 1 and "plain" in own


def _pydantic(kind: Any) -> Mapping[str, Field]:
    if not getattr(kind, "__pydantic_complete__", True):
        kind.model_rebuild(raise_errors=False)
    fields = {}
    for name, info in kind.model_fields.items():
        aliases = (getattr(entry, "alias", None) for entry in info.metadata)  # Fern's FieldMetadata
        wire = info.serialization_alias or info.alias or next(filter(None, aliases), None) or name
        fields[wire] = Field(shape_of(info.annotation, _home(kind, name)), info.is_required())
    return fields


def _home(kind: type, name: str) -> str:
    """The module of the class that declares a field."""
    declaring = (base for base in kind.__mro__ if name in inspect.get_annotations(base))
    return next(declaring, kind).__module__


def _msgspec(kind: Any) -> Mapping[str, Field]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.encode_name: Field(shape_of(hints[field.name], kind.__module__), field.required)
        for field in msgspec.structs.fields(kind)
    }


def _dataclass(kind: Any) -> Mapping[str, Field]:
    missing = dataclasses.MISSING
    return {
        field.name: Field(
            shape_of(field.type, kind.__module__),
            field.default is missing and field.default_factory is missing,
        )
        for field in dataclasses.fields(kind)
    }


def _typed_dict(kind: Any) -> Mapping[str, Field]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:  # a name that is imported for type checkers only
        hints = kind.__annotations__
    return {
        name: Field(shape_of(hint, kind.__module__), name in kind.__required_keys__ and not _may_miss(hint))
        for name, hint in hints.items()
    }


def _may_miss(hint: Any) -> bool:
    """Whether a key is marked NotRequired, which `__required_keys__` misses where annotations are text."""
    return _name_of(typing.get_origin(hint)) == "NotRequired"


def shape_of_botocore(shape: Any) -> Shape:
    """The shape of one of botocore's, of which a union has one member at a time."""
    return _Botocore().read(shape)


class _Botocore:
    """Reads a service model, each of its shapes once."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def read(self, shape: Any) -> Shape:
        if shape.name not in self._known:
            self._known[shape.name] = self._made(shape)
        return self._known[shape.name]

    def _made(self, shape: Any) -> Shape:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return Items(self.read(shape.member))
            case "map":
                return Mapped(self.read(shape.value))
            case "string":
                return Leaf("string", tuple(shape.enum))
            case "integer" | "long" | "boolean":
                return Leaf("boolean" if shape.type_name == "boolean" else "integer")
            case "float" | "double":
                return Leaf("number")
            case "blob":
                return Leaf("bytes")
            case "timestamp":
                return Leaf("time")
            case _:
                return ANY

    def _structure(self, shape: Any) -> Shape:
        if getattr(shape, "is_document_type", False):
            return ANY
        if shape.metadata.get("union") or shape.is_tagged_union:
            return Choice(
                tuple(
                    Record(f"{shape.name}.{name}", functools.partial(self._only, shape, name))
                    for name in shape.members
                )
            )
        return Record(shape.name, lambda: {name: self._member(shape, name) for name in shape.members})

    def _only(self, shape: Any, name: str) -> Mapping[str, Field]:
        return {name: Field(self.read(shape.members[name]), True)}

    def _member(self, shape: Any, name: str) -> Field:
        return Field(self.read(shape.members[name]), name in shape.required_members)


def text_of(shape: Shape) -> str:
    """A short notation of a shape, for the record: `[TextBlock | ToolUseBlock]`, `string "a" "b"`."""
    match shape:
        case Leaf(kind, values):
            return " ".join((kind, *(f'"{value}"' for value in values)))
        case Items(item):
            return f"[{text_of(item)}]"
        case Mapped(value):
            return f"{{{text_of(value)}}}"
        case Choice(options):
            return " | ".join(sorted(map(text_of, options)))
        case _:
            return shape.name


def records(*shapes: Shape) -> Iterator[Record]:
    """Every object that is reachable, each once."""
    seen: set[int] = set()
    waiting = list(reversed(shapes))
    while waiting:
        shape = waiting.pop()
        match shape:
            case Items(inner) | Mapped(inner):
                waiting.append(inner)
            case Choice(options):
                waiting.extend(reversed(options))
            case Record() if id(shape) not in seen:
                seen.add(id(shape))
                yield shape
                waiting.extend(reversed([field.shape for field in shape.fields.values()]))
            case _:
                pass
