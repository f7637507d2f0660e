"""A value while it streams: what can be shown of it after each fragment, in the shape of its type.

Structs, dataclasses and pydantic models become instances in which a missing field is
`msgspec.UNSET`, and nothing is validated; typed dicts become dicts without the key; arrays become
lists. Text grows. Numbers, enums, literals, dates and the like appear when they are complete, since
half of one is another one.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import typing
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec import inspect as shapes

from llmstream import events as ev
from llmstream.chats.content import own_values
from llmstream.errors import LLMStreamError
from llmstream.json_types import Choice, is_model, readable
from llmstream.partial_json import PartialJSON
from llmstream.structured import ANSWER_KEY, Output

__all__ = [
    "Growth",
    "PartialValues",
]

_NOTHING: Any = object()

# How many members may be copied for each character that comes: some 0.5 us. So the work is linear in the
# text. A value is shown after every fragment of 16 characters until it has 1,000 members or so; a larger one
# is shown after as much text as pays for the copy.
_EARNED_PER_CHAR: Final = 64

# After how many copied members the loop should have a turn: a few milliseconds.
_TURN_COST: Final = 200_000


class Growth:
    """Events of one response in, values out: each time the value so far, or the elements of a list.

    Elements of a list are yielded once, when they are complete and fit their type. Everything else is yielded
    as it grows, see `PartialValues`, and again only after it has changed; a large value not after every
    fragment, because each time is a copy. Text before the first brace is ignored.

    output: None for JSON without a type, shown as plain values
    """

    def __init__(self, output: Output | None) -> None:
        self._output = output
        self._wrapper = output.wrapper if output is not None else None
        self._by_item = output is not None and output.item_type is not None
        # Only a list may come without the object around it; elsewhere a bracket before the first brace is
        # prose.
        self._opening = "{" if output is None or not self._by_item else "{["
        self._begin()

    def _begin(self) -> None:
        self._parser: PartialJSON | None = None
        self._partial = PartialValues(self._output.type if self._output is not None else Any)
        self._shown: Any = _NOTHING
        self._items = 0
        self._earned = self._turn_at = 0

    def turn_due(self) -> bool:
        """Whether the event loop should have a turn before the next event; then not again for a while."""
        if self._partial.cost < self._turn_at:
            return False
        self._turn_at = self._partial.cost + _TURN_COST
        return True

    def feed(self, event: ev.Event) -> list[Any]:
        """Returns the values that an event adds, mostly none or one."""
        if isinstance(event, ev.TextDelta):
            return self._read(event.delta)
        marked = isinstance(event, ev.TextStart) and ANSWER_KEY in own_values(event.provider_metadata)
        # A new response, or an answer given by a tool after some prose: the value starts again.
        if marked or isinstance(event, ev.StreamStart):
            self._begin()
        return []

    def _read(self, text: str) -> list[Any]:
        parser = self._parser
        if parser is None:
            at = min((i for i in map(text.find, self._opening) if i >= 0), default=-1)
            if at < 0:
                return []
            parser = self._parser = PartialJSON()
            text = text[at:]
        if parser.complete:
            return []
        try:
            parser.feed(text)
        except LLMStreamError:
            # The parser has it in `error`; what it read before stays.
            pass
        if parser.error is not None:
            if self._shown is _NOTHING and not self._items:
                # A brace in prose.
                self._begin()
            return []
        if self._by_item:
            return self._new_items(parser)
        self._earned += len(text) * _EARNED_PER_CHAR
        # Each value is a copy, so a long answer in small pieces would take quadratic time.
        if self._partial.cost > self._earned and not parser.complete:
            return []
        return self._new_value(parser)

    def _new_items(self, parser: PartialJSON) -> list[Any]:
        root = parser.value
        items = root.get(self._wrapper) if isinstance(root, dict) else root
        out: list[Any] = []
        if not isinstance(items, list) or self._output is None:
            return out
        while self._items < len(items):
            item = items[self._items]
            # The last element may still change.
            if self._items + 1 == len(items) and (parser.growing or parser.is_open(item)):
                break
            self._items += 1
            try:
                out.append(self._output.item(item))
            except (msgspec.MsgspecError, ValueError, TypeError):
                # The error is raised at the end.
                continue
        return out

    def _validated(self, raw: Any) -> Any:
        """Returns the validated value; if it does not fit, what can be shown of it."""
        if self._output is None:
            return raw
        try:
            return self._output.value(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return self._partial.of(raw, self._parser or PartialJSON(), last=True)

    def _new_value(self, parser: PartialJSON) -> list[Any]:
        root = parser.value
        if self._wrapper is not None:
            if not isinstance(root, dict) or self._wrapper not in root:
                return []
            root = root[self._wrapper]
        elif not root:
            return []
        value = self._validated(root) if parser.complete else self._partial.of(root, parser, last=True)
        # By type first: 1 == True, and 1 == 1.0.
        if value is msgspec.UNSET or (type(value) is type(self._shown) and value == self._shown):
            return []
        self._shown = value
        return [value]


# Kinds of leaves whose prefix is a different value: shown only when complete.
_COMPLETE: Final[dict[type, Any]] = {
    shapes.IntType: int,
    shapes.FloatType: float,
    shapes.BoolType: bool,
    shapes.BytesType: bytes,
    shapes.ByteArrayType: bytearray,
    shapes.DateTimeType: datetime.datetime,
    shapes.DateType: datetime.date,
    shapes.TimeType: datetime.time,
    shapes.TimeDeltaType: datetime.timedelta,
    shapes.UUIDType: uuid.UUID,
    shapes.DecimalType: decimal.Decimal,
}

_ARRAYS: Final = (
    shapes.ListType,
    shapes.SetType,
    shapes.FrozenSetType,
    shapes.VarTupleType,
    shapes.CollectionType,
)


class _ModelType(shapes.Type):
    """The shape of a pydantic model, as msgspec has those of its own."""

    cls: type
    fields: tuple[shapes.Field, ...]


# Shapes that may contain a pydantic model, which msgspec does not inspect.
_UNKNOWN: Final = (shapes.CustomType, shapes.UnionType, shapes.Metadata)

_OBJECTS: Final = (shapes.StructType, shapes.DataclassType, shapes.TypedDictType, _ModelType)

# Work of converting a value, in units of copying a pointer.
_VISITED: Final = 16
# How many times faster text is copied than values are visited.
_CHARS_PER_UNIT: Final = 32


class PartialValues:
    """Snapshots of a growing value; complete parts are converted once and shared by all of them.

    cost: of all snapshots so far, in members that were copied; one that is converted counts as 16
          of them, 32 characters of a string that grows as one
    """

    def __init__(self, output_type: Any) -> None:
        self._root = shapes.type_info(readable(output_type))
        self._known: dict[int, tuple[Any, Any]] = {}  # by the ids of shapes, which are stored too
        self.cost = 0
        self._makers: dict[type, Callable[[dict[str, Any]], Any]] = {}
        # By the ids of the parser's containers, which are stored too, so that no id is used twice:
        self._complete: dict[int, tuple[Any, Any]] = {}  # values of the closed ones
        self._before_last: dict[
            int, tuple[Any, list[Any]]
        ] = {}  # of arrays, the values of all elements but an open one
        self._members: dict[int, _Members] = {}  # the same of open objects

    def of(self, raw: Any, parser: PartialJSON, *, last: bool) -> Any:
        """Returns the value of the parsed JSON so far; UNSET while there is nothing to show."""
        return self._value(raw, self._root, parser, last)

    def _value(self, raw: Any, shape: Any, parser: PartialJSON, last: bool) -> Any:
        """Converts a value; `last`: it came last, so it may still be open."""
        if isinstance(shape, _UNKNOWN):
            shape = self._known_shape(shape)
        if not isinstance(raw, dict | list):
            if last and isinstance(raw, str):
                self.cost += len(raw) // _CHARS_PER_UNIT
            return _leaf(raw, shape, growing=last and parser.growing)
        if id(raw) in self._complete:
            return self._complete[id(raw)][1]
        is_open = parser.is_open(raw)
        value = (
            self._array(raw, shape, parser, is_open)
            if isinstance(raw, list)
            else (self._object(raw, shape, parser, is_open))
        )
        if not is_open:
            self._complete[id(raw)] = raw, value
            # `_complete` has the container still.
            self._before_last.pop(id(raw), None)
            self._members.pop(id(raw), None)
        return value

    def _known_shape(self, shape: Any) -> Any:
        """Returns the shape, with types that msgspec knows by name only spelled out."""
        found = self._known.get(id(shape))
        if found is None:
            found = self._known[id(shape)] = shape, self._spelled_out(shape)
        return found[1]

    def _spelled_out(self, shape: Any) -> Any:
        if isinstance(shape, shapes.Metadata):
            return self._spelled_out(shape.type)
        if isinstance(shape, shapes.UnionType):
            known = map(self._spelled_out, shape.types)
            # A union in a union is one.
            flat = [each.types if isinstance(each, shapes.UnionType) else (each,) for each in known]
            return shapes.UnionType(tuple(itertools.chain.from_iterable(flat)))
        if not isinstance(shape, shapes.CustomType):
            return shape
        if issubclass(shape.cls, Choice):
            return self._spelled_out(shapes.UnionType(tuple(map(shapes.type_info, shape.cls.options))))
        if not is_model(shape.cls):
            return shape
        fields = _model_fields(shape.cls)
        if getattr(shape.cls, "__pydantic_root_model__", False):
            return self._spelled_out(fields[0].type)
        return _ModelType(shape.cls, fields)

    def _array(self, raw: list[Any], shape: Any, parser: PartialJSON, is_open: bool) -> Any:
        chosen = _chosen(raw, shape, None)
        # The last element of an open array may still grow.
        end = len(raw) - 1 if is_open else len(raw)
        complete = self._before_last.setdefault(id(raw), (raw, []))[1]
        for index in range(len(complete), end):
            complete.append(self._value(raw[index], _item_shape(chosen, index), parser, False))
            self.cost += _VISITED
        values = complete.copy()
        self.cost += len(values)
        if 0 <= end < len(raw):
            last = self._value(raw[end], _item_shape(chosen, end), parser, True)
            if last is not UNSET:
                values.append(last)
        return values

    def _object(self, raw: dict[str, Any], shape: Any, parser: PartialJSON, is_open: bool) -> Any:
        growing = parser.growing_key(raw)
        chosen = _chosen(raw, shape, growing)
        if chosen is None:
            return UNSET
        end = len(raw)
        # The last member may change; after a repeated key, any member may.
        if is_open:
            end = 0 if parser.repeated_keys else max(0, end - 1)
        members = self._members.get(id(raw))
        # A key came again after its member was converted: all are converted again.
        if members is None or members.read > end:
            members = self._members[id(raw)] = _Members(raw, chosen)
        self.cost += _VISITED * (len(raw) - members.read) + len(members.values)
        for key, inner in itertools.islice(raw.items(), members.read, end):
            self._add(members.values, members, key, inner, parser, last=False)
        members.read = end
        known = members.values.copy()
        for key, inner in itertools.islice(raw.items(), end, None):
            self._add(known, members, key, inner, parser, last=key == growing)
        return self._made(chosen, known)

    def _add(
        self,
        known: dict[str, Any],
        members: _Members,
        key: Any,
        inner: Any,
        parser: PartialJSON,
        *,
        last: bool,
    ) -> None:
        name, shape = members.fields.get(key, (key, members.others))
        if shape is None:
            # A tag, or a name that the type does not know.
            return
        value = self._value(inner, shape, parser, last)
        if value is not UNSET:
            known[name] = value

    def _made(self, shape: Any, known: dict[str, Any]) -> Any:
        make = _MAKERS.get(type(shape))
        if make is None:
            return known
        maker = self._makers.get(shape.cls)
        if maker is None:
            maker = self._makers[shape.cls] = make(shape)
        return maker(known)


class _Members:
    """Of one object, the values of all members but the last, while that may be open.

    raw:    the parser's object, held so that its id stays its own
    read:   how many members are in `values`, or were passed over
    fields: own names and shapes by the names in JSON
    others: the shape of members that are no field; None if they are ignored
    """

    __slots__ = ("fields", "others", "raw", "read", "values")

    def __init__(self, raw: dict[str, Any], shape: Any) -> None:
        self.raw = raw
        self.values: dict[str, Any] = {}
        self.read = 0
        self.fields = _fields(shape)
        # In a dict without a shape each member is any value.
        self.others: Any = shapes.AnyType()
        if isinstance(shape, shapes.DictType):
            self.others = shape.value_type
        elif isinstance(shape, _OBJECTS):
            self.others = None


def _struct_maker(shape: Any) -> Callable[[dict[str, Any]], Any]:
    """Creates instances of a subclass in which every field may be UNSET and nothing is validated."""
    cls: Any = typing.get_origin(shape.cls) or shape.cls
    made: Any = msgspec.defstruct(
        cls.__name__,
        [(name, Any, UNSET) for name in cls.__struct_fields__],
        bases=(cls,),
        module=cls.__module__,
        # The user's own may compute with fields that have not come.
        namespace={"__post_init__": lambda self: None, "__doc__": cls.__doc__},
    )
    return lambda known: made(**known)


def _dataclass_maker(shape: Any) -> Callable[[dict[str, Any]], Any]:
    """Creates instances without `__init__`, which would require the missing fields."""
    cls: Any = typing.get_origin(shape.cls) or shape.cls
    names = [field.name for field in shape.fields]

    def make(known: dict[str, Any]) -> Any:
        value = object.__new__(cls)
        for name in names:
            # Past the `__setattr__` of a frozen dataclass.
            object.__setattr__(value, name, known.get(name, UNSET))
        return value

    return make


def _model_maker(shape: Any) -> Callable[[dict[str, Any]], Any]:
    """Creates instances of a subclass without validation; dicts if the class has no way to do so."""
    cls: Any = shape.cls
    if not callable(getattr(cls, "model_construct", None)):
        return lambda known: known
    body = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__qualname__": cls.__qualname__,
        "model_post_init": lambda self, context: None,  # it would require a missing value
    }
    made: Any = type(cls)(cls.__name__, (cls,), body)
    absent = dict.fromkeys([field.name for field in shape.fields], UNSET)
    return lambda known: made.model_construct(set(known), **{**absent, **known})


_MAKERS: Final[dict[Any, Callable[[Any], Callable[[dict[str, Any]], Any]]]] = {
    shapes.StructType: _struct_maker,
    shapes.DataclassType: _dataclass_maker,
    _ModelType: _model_maker,
}


def _model_fields(cls: Any) -> tuple[shapes.Field, ...]:
    """Returns the fields of a model, each by every name that it may have in JSON."""
    found: list[shapes.Field] = []
    for name, field in getattr(cls, "model_fields", {}).items():
        try:
            shape = shapes.type_info(readable(field.annotation))
        except (TypeError, ValueError, NameError):
            shape = shapes.AnyType()  # a type that only pydantic knows
        # Every name that some configuration of pydantic reads; the field's own counts with populate_by_name.
        aliases = (field.validation_alias, field.alias, name)
        names = dict.fromkeys([alias for alias in aliases if isinstance(alias, str)])
        found += [shapes.Field(name, alias, shape) for alias in names]
    return tuple(found)


def _fields(shape: Any) -> dict[str, tuple[str, Any]]:
    """Returns names and shapes of the fields, by their names in JSON."""
    if not isinstance(shape, _OBJECTS):
        return {}
    return {field.encode_name: (field.name, field.type) for field in shape.fields}


def _item_shape(shape: Any, index: int) -> Any:
    if isinstance(shape, _ARRAYS):
        return shape.item_type
    if isinstance(shape, shapes.TupleType) and index < len(shape.item_types):
        return shape.item_types[index]
    return shapes.AnyType()


def _chosen(raw: dict[str, Any] | list[Any], shape: Any, growing_key: str | None) -> Any:
    """Returns the member of a union that a container belongs to; None while its tag is incomplete."""
    if not isinstance(shape, shapes.UnionType):
        return shape
    if isinstance(raw, list):
        return next((s for s in shape.types if isinstance(s, (*_ARRAYS, shapes.TupleType))), shapes.AnyType())
    objects = [s for s in shape.types if isinstance(s, (*_OBJECTS, shapes.DictType))]
    if not objects:
        return shapes.AnyType()
    # With one candidate no tag is needed; a value that does not fit it fails when it is complete.
    if len(objects) == 1:
        return objects[0]
    return next((option for option in objects if _is_tagged(raw, option, growing_key)), None)


def _is_tagged(raw: dict[str, Any], option: Any, growing_key: str | None) -> bool:
    """Whether the tag of an object has come, and is that of the option: of a model, its literals."""
    if isinstance(option, _ModelType):
        tags = {f.encode_name: f.type.values for f in option.fields if isinstance(f.type, shapes.LiteralType)}
    else:
        field = getattr(option, "tag_field", None)
        tags = {} if field is None else {field: (getattr(option, "tag", None),)}
    come = {name: values for name, values in tags.items() if name in raw and name != growing_key}
    return bool(come) and all(raw[name] in values for name, values in come.items())


def _leaf(raw: Any, shape: Any, *, growing: bool) -> Any:
    """Converts a string, number, literal or null to its type; UNSET while it is incomplete."""
    options = shape.types if isinstance(shape, shapes.UnionType) else (shape,)
    for option in options:
        # Constraints hold for complete values.
        while isinstance(option, shapes.Metadata):
            option = option.type
        if isinstance(option, shapes.StrType | shapes.AnyType | shapes.RawType):
            if isinstance(raw, str) or not isinstance(option, shapes.StrType):
                return raw if isinstance(raw, str) or not growing else UNSET
        elif isinstance(option, shapes.NoneType):
            if raw is None:
                return None
        elif not growing:
            value = _complete_leaf(raw, option)
            if value is not UNSET:
                return value
    return UNSET


def _complete_leaf(raw: Any, option: Any) -> Any:
    if isinstance(option, shapes.CustomType):
        # A type that only pydantic knows.
        return raw
    if isinstance(option, shapes.LiteralType):
        # By type too: 1 == True, and `Literal[1]` does not accept `true`.
        return raw if any(type(v) is type(raw) and v == raw for v in option.values) else UNSET
    target = option.cls if isinstance(option, shapes.EnumType) else _COMPLETE.get(type(option))
    if target is None:
        return UNSET
    try:
        return msgspec.convert(raw, target)
    except (msgspec.MsgspecError, ValueError, TypeError):
        # Another type of the union may fit.
        return UNSET
