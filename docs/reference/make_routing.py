"""Writes routing.md from the vocabulary, the check of rules and the router in agentlink.core.routing.

python docs/reference/make_routing.py

Names, values, limits and codes come from the program; the words about keys, reasons and verdicts are here. A name
without words, or words without a name, are an error. `tests/docs` fails while the page is not what this program says.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from agentlink.core.routing import document, explain, router, rules
from agentlink.core.routing.hints import FIELDS

KEYS = {
    "id": "required; 1 to 64 of `a-z 0-9 . _ -`, the first a letter or digit; each id once",
    "preset": f"required; the id of a preset on the Host, one line of 1 to {rules.LONGEST_PRESET} characters",
    "priority": f"integer from -{rules.HIGHEST_PRIORITY} to {rules.HIGHEST_PRIORITY}, default 0",
    "reason": f"one line of at most {rules.LONGEST_REASON} characters, for people; it affects no choice. A text that "
    "looks like a credential, or speaks of the sandbox, is refused",
    "match": 'hints that the rule takes, at least one field: `{ field = "value" }` or `{ field = ["value", "value"] }`',
    "exclude": "the same form: hints that the rule never takes",
    "catch_all": "true, in place of `match`: takes any task, below every rule with `match`",
    "source": f"{' or '.join(f'`{source}`' for source in get_args(rules.Source))}, default `user`: where the rule "
    "comes from; it affects no choice",
}
REASONS = {
    "kind_exact": "`match` names one kind",
    "kind_set": "`match` names several kinds",
    "fields": "`match` names other fields only",
    "catch_all": "`catch_all = true`",
}
VERDICTS = {
    "best": "matches, and no matching rule ranks higher. Several of these are a tie",
    "outranked": "matches, and another matching rule ranks higher",
    "excluded": "would match, but for its `exclude`",
    "no_match": "names a hint that is another one or was not given",
}
TARGETS = {
    "usable": "the Host has the preset",
    "broken": "the Host has it and says that it does not work",
    "absent": "the Host does not have it",
    "unknown": "the Host could not be asked",
}

HEAD = """# Routing

<!-- Made by docs/reference/make_routing.py; do not edit. -->

Automatic routing chooses the preset of a delegation. It is asked for in each delegation (`--auto`, or `routing`
over MCP) and is a function of three things: the hints of that delegation, the rules in `routes.toml`, and the
presets that the Host has at that moment. Equal input gives an equal choice; no model and no text of the prompt
takes part. How to write rules, by example: [write routing rules](../how-to/write-routing-rules.md).
"""

HINTS = """
## Hints

All are optional. A hint that is not given stays not given; nothing is filled in. Any other field or value is
`routing_hints_invalid`, with the nearest valid name. A hint grants nothing: no permission, no model, no sandbox.

"""

FILE = """
## routes.toml

In the [state home](settings.md#the-state-home). It is read afresh for every automatic delegation, and Agentlink's
delegations only read it. UTF-8, at most {largest} MiB, TOML:

```toml
version = {version}

[[rule]]
id = "large-implementation"
preset = "standard"
priority = 10
reason = "full tool set"
match = {{ kind = ["implementation", "debugging"], scale = "large" }}
exclude = {{ evidence = "external-evidence" }}

[[rule]]
id = "anything-else"
preset = "minimal"
catch_all = true
```

| key of a rule | |
| --- | --- |
"""

CHOICE = """
A rule has either `match` or `catch_all = true`. The fields of `match` and `exclude` are those above. Any other key,
field or value is a defect, and a file with a defect is `routing_config_invalid`: none of its rules is used. The
error has file, line, the name found, and the nearest valid one. No file, or a file without a rule, is
`routing_not_configured`. Both stop automatic delegations and nothing else.

## The choice

1. **Match.** A rule matches when each field of its `match` holds the hint that was given, and no field of its
   `exclude` does. A field that the rule names and nobody gave a hint for does not match. So without hints only
   catch-all rules match. Nothing matches: `no_eligible_route`.
2. **Rank.** By how the kind is named, the best first in the table below; then by the number of other fields in
   `match`; then by `priority`. Catch-all rules stand below all others; among them `priority` decides.
3. **One best rule.** Its preset is the choice. If the Host does not have it, `preset_not_found`; if it is broken
   there, `preset_broken`. No other rule is tried.
4. **Several best rules.** `ambiguous_route`, with the ids in order and each preset's state; or, when none of their
   presets can be used, `no_eligible_route` with a reason for each. Whether a preset can be used never decides
   between rules.

An error names at most {reasons} reasons and {ids} ids, then a count of the others. Why it is so strict: [no silent
fallback](../explanation/why-no-silent-fallback.md).

| `reason` in the result | the winning rule |
| --- | --- |
"""

AFTER = """| `explicit_preset` | none: a preset was named |
| `dsh_default` | none: the Host's default |

## The proof

A choice is not yet a launch. The chosen preset goes into the create of the session, and what the Host says the
session has is compared with it, right after the create and once more right before the prompt. Anything else is
`resolved_preset_mismatch`; a Host that cannot say is `routing_verification_unavailable`. Nothing is sent then, and
task and session are named.

## The explanation

`agentlink route explain` tells every rule's fate for some hints, without touching a session. At most {rows} rules
are shown.

| verdict | |
| --- | --- |
"""


def page() -> str:
    """The whole page. Raises ValueError when words and program do not match."""
    table = "| hint | says | values |\n| --- | --- | --- |\n" + "".join(
        f"| `{field.name}` | {field.says} | {', '.join(f'`{value}`' for value in field.values)} |\n" for field in FIELDS
    )
    return "".join(
        (
            HEAD,
            HINTS,
            table,
            FILE.format(largest=document.LARGEST >> 20, version=rules.VERSION),
            _rows(KEYS, rules._RULE_KEYS),
            CHOICE.format(reasons=router.MOST_REASONS, ids=router.MOST_IDS),
            _rows(REASONS, get_args(rules.Reason)),
            AFTER.format(rows=explain.MOST_ROWS),
            _rows(VERDICTS, get_args(explain.Verdict)),
            "\n| target | |\n| --- | --- |\n",
            _rows(TARGETS, get_args(router.Target)),
        )
    )


def _rows(words: Mapping[str, str], names: Iterable[str]) -> str:
    if set(words) != set(names):
        raise ValueError(f"no words, or no name, for: {sorted(set(words) ^ set(names))}")
    return "".join(f"| `{name}` | {words[name]} |\n" for name in names)


if __name__ == "__main__":
    Path(__file__).with_name("routing.md").write_text(page(), encoding="utf-8")
