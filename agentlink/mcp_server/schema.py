"""Input schemas from our own argument types, and arguments back into them (field case F12)."""

from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from agentlink.core.errors import Code, Failure

T = TypeVar("T", bound=msgspec.Struct)

_REF = "#/$defs/"


def input_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments: an object at the root, nothing referenced, nothing unknown allowed."""
    (root,), components = msgspec.json.schema_components([arguments], ref_template=_REF + "{name}")
    schema = cast("dict[str, Any]", _inlined(root, components))
    schema.pop("title", None)
    schema.pop("description", None)
    schema["additionalProperties"] = False
    if not schema.get("required"):
        schema.pop("required", None)
    return schema


def _inlined(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        # The names and docstrings of our own types are no help to a caller.
        named = components[node["$ref"].removeprefix(_REF)]
        target = {key: value for key, value in named.items() if key not in ("title", "description")}
        return _inlined({**target, **{key: value for key, value in node.items() if key != "$ref"}}, components)
    plain = {key: _inlined(value, components) for key, value in node.items() if key != "default"}
    if "enum" in plain and "type" not in plain:
        plain["type"] = "string"  # all our enumerations are texts, and some callers insist on a type
    return plain


def parse_arguments(arguments: type[T], given: dict[str, Any]) -> T:
    """The arguments as their type. Raises Failure invalid_request that names the argument.

    A null counts as absent. The exact JSON text of a number, boolean, array or object is taken for it, since some
    callers send every argument as text.
    """
    kinds = {field.encode_name: field.type for field in _struct_info(arguments).fields}
    for name in given:
        if name not in kinds:
            known = ", ".join(kinds) or "none"
            raise _refused(name, f"unknown argument {name!r}; this tool takes: {known}")
    present = {name: _plain(kinds[name], value) for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(present, arguments)
    except msgspec.ValidationError as error:
        raise _refused(_argument_of(str(error), kinds), str(error)) from None


def _struct_info(arguments: type[msgspec.Struct]) -> inspect.StructType:
    return cast("inspect.StructType", inspect.type_info(arguments))


def _plain(kind: inspect.Type, value: Any) -> Any:
    if not isinstance(value, str) or _takes_text(kind):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _takes_text(kind: inspect.Type) -> bool:
    match kind:
        case inspect.StrType() | inspect.LiteralType() | inspect.EnumType() | inspect.AnyType():
            return True
        case inspect.Metadata():
            return _takes_text(kind.type)
        case inspect.UnionType():
            return any(_takes_text(part) for part in kind.types)
        case _:
            return False


def _argument_of(message: str, kinds: dict[str, inspect.Type]) -> str:
    """The argument that a conversion error speaks of: `… - at `$.limit`` or `… missing required field `cwd``."""
    return next((name for name in kinds if f"$.{name}" in message or f"`{name}`" in message), "")


def _refused(argument: str, message: str) -> Failure:
    return Failure(Code.INVALID_REQUEST, message, details={"argument": argument})
