"""JSON schemas as Moonshot takes them.

Every schema says its type, in the branches of an `anyOf` and not beside it; references lead to `$defs`
of the root, which is an object. What has no place there moves into the description, where the model
still reads it.
source: "Moonshot Flavored JSON Schema Spec" and the rules of its validator, both at MoonshotAI/walle
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["moonshot_schema"]

_KEPT: Final = frozenset({"type", "description", "default", "enum", "required"})
_SILENT: Final = frozenset({"$schema", "$id", "$comment", "title", "$defs", "definitions"})
_ANYTHING: Final = ("string", "number", "boolean", "object", "array", "null")
_OWNERS: Final = {
    "properties": "object", "required": "object", "additionalProperties": "object", "items": "array",
}  # fmt: skip
_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_MAX_DEPTH: Final = 12  # to which references that are no definitions are written out


def moonshot_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A schema of an object in the subset, and whether something of it went into words."""
    return _Narrower(schema).whole()


class _Narrower:
    """Rewrites one schema; `moved` says whether something went into words."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.moved = False

    def whole(self) -> tuple[dict[str, Any], bool]:
        out = self.narrowed(self.resolved(self.root), 0)
        if "anyOf" in out:
            out = self.one_object(out)
        elif out.get("type") != "object":
            out = self.said({"type": "object"}, out)  # no arguments of a tool, whatever it is
        out.setdefault("properties", {})
        held = self.root.get("$defs", self.root.get("definitions"))
        if isinstance(held, dict) and '"#/$defs/' in msgspec.json.encode(out).decode():
            out["$defs"] = {name: self.narrowed(inner, 1) for name, inner in held.items()}
        return out, self.moved

    def narrowed(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            schema = {}
        schema = self.merged(self.inlined(schema))
        out: dict[str, Any] = {}
        words: dict[str, Any] = {}
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {name: self.narrowed(inner, depth + 1) for name, inner in value.items()}
            elif key == "items" and value not in ({}, True):
                out[key] = self.narrowed(value, depth + 1)
            elif key == "additionalProperties":
                out[key] = (
                    value if isinstance(value, bool) or value == {} else self.narrowed(value, depth + 1)
                )
            elif key in ("anyOf", "oneOf") and isinstance(value, list) and value:
                out["anyOf"] = [self.inlined(branch) for branch in value if isinstance(branch, dict)]
            elif key == "const":
                out["enum"] = [value]
            elif key in _KEPT or key == "$ref":
                out[key] = value
            elif key not in _SILENT and key != "items":
                words[key] = value
        return self.said(self.typed(out, words, depth), words)

    def typed(self, out: dict[str, Any], words: dict[str, Any], depth: int) -> dict[str, Any]:
        """With its type where it belongs."""
        if "$ref" in out:
            out.pop("type", None)  # the definition has one
            words.update({key: out.pop(key) for key in list(out) if key not in ("$ref", "description")})
            return out
        kinds = out.pop("type", None)
        if kinds is None:
            kinds = self.guessed(out)
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if depth == 0 and kinds == ["null"]:
            kinds = ["object"]
        branches = out.pop("anyOf", None)
        about = {key: out.pop(key) for key in ("description",) if key in out}
        if branches is None and len(kinds) == 1:
            return self.of_type(kinds[0], {**out, **about}, words)
        if branches is None:
            return {"anyOf": [self.of_type(kind, out, {}) for kind in kinds], **about}
        shared = {} if kinds == list(_ANYTHING) or len(kinds) > 1 else {"type": kinds[0]}
        joined = [self.narrowed(_both({**shared, **out}, branch), depth + 1) for branch in branches]
        flat = [inner for one in joined for inner in (one["anyOf"] if set(one) == {"anyOf"} else [one])]
        return {"anyOf": flat, **about}

    def of_type(self, kind: str, out: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
        """The fields that a type has."""
        fields = {key: value for key, value in out.items() if _OWNERS.get(key, kind) == kind}
        if isinstance(fields.get("required"), list):
            named = fields.get("properties", {})
            fields["required"] = [name for name in fields["required"] if name in named]
        values = fields.get("enum")
        if isinstance(values, list):
            fitting = [
                v for v in values if _NAMES.get(type(v)) in (kind, "integer" if kind == "number" else kind)
            ]
            if fitting and kind not in ("null", "boolean"):
                fields["enum"] = fitting
            else:
                words["enum"] = fields.pop("enum")
        if kind in ("object", "array"):
            fields.pop("default", None)
        return {"type": kind, **fields}

    def guessed(self, out: dict[str, Any]) -> list[str]:
        """The types that a schema means which names none."""
        if "properties" in out or "required" in out or "additionalProperties" in out:
            return ["object"]
        if "items" in out:
            return ["array"]
        if isinstance(out.get("enum"), list):
            return list(dict.fromkeys(_NAMES.get(type(value), "string") for value in out["enum"])) or [
                "string"
            ]
        return list(_ANYTHING)

    def one_object(self, out: dict[str, Any]) -> dict[str, Any]:
        """The root has to be one object: its alternatives become properties, and words."""
        branches = [branch for branch in out["anyOf"] if branch.get("type") == "object"]
        properties: dict[str, Any] = {}
        for branch in branches:
            properties.update(branch.get("properties", {}))
        always = set(properties)
        for branch in branches:
            always &= set(branch.get("required", ()))
        whole = {"type": "object", "properties": properties, "required": sorted(always)}
        if "description" in out:
            whole["description"] = out["description"]
        alternatives = [{"required": branch.get("required", [])} for branch in branches]
        return self.said(whole, {"anyOf": alternatives} if len(alternatives) > 1 else {})

    def said(self, out: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
        """With what has no place put into the description."""
        if not words:
            return out
        self.moved = True
        text = msgspec.json.encode(words).decode()
        return {**out, "description": f"{out['description']} {text}" if out.get("description") else text}

    def inlined(self, schema: dict[str, Any]) -> dict[str, Any]:
        """References that lead to the definitions stay, others give way to what they name."""
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith(("#/$defs/", "#/definitions/")) and ref.count("/") == 2:
            return {**schema, "$ref": ref.replace("#/definitions/", "#/$defs/")}
        return self.resolved(schema) if isinstance(ref, str) and ref != "#" else schema

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What a local reference names, with what stands beside it."""
        for _ in range(_MAX_DEPTH):
            ref = schema.get("$ref")
            if not isinstance(ref, str):
                return schema
            found: Any = self.root
            for step in ref.removeprefix("#").strip("/").split("/"):
                name = step.replace("~1", "/").replace("~0", "~")
                found = found.get(name) if isinstance(found, dict) and name else found
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**found, **beside} if isinstance(found, dict) else beside
        return {key: value for key, value in schema.items() if key != "$ref"}

    def merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`allOf` has no place: its parts become one, conditions apart."""
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        out = {key: value for key, value in schema.items() if key != "allOf"}
        conditions = []
        for part in parts:
            if isinstance(part, dict) and not part.keys() & {"if", "not", "anyOf", "oneOf"}:
                out = _both(out, self.resolved(part))
            else:
                conditions.append(part)
        return {**out, "all of": conditions} if conditions else out


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema that says what both say; where they differ, the second."""
    out = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        out["properties"] = {**one["properties"], **other["properties"]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        out["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return out
