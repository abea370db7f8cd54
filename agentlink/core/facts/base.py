"""What every journal fact has in common."""

from typing import Any

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One thing that happened, past tense. The store adds seq, at, task and n around it."""


def fact_type(fact: "Fact | type[Fact]") -> str:
    """The fact's name in the journal, such as `launch/claimed`."""
    tag: Any = fact.__struct_config__.tag
    return str(tag)
