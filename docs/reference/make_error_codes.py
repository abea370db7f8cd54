"""Writes error-codes.md from the registry in agentlink.core.errors.

python docs/reference/make_error_codes.py

The registry has each code and its next safe step; the words about when a code is given are here. A code without words,
or words without a code, are an error. `tests/docs` fails while the page is not what this program says.
"""

from pathlib import Path

from agentlink.core.errors import NEXT, Code

WHEN = {
    "The request": {
        Code.INVALID_REQUEST: "An argument, an option or a setting is wrong. `details` names it.",
        Code.ROUTING_REQUEST_AMBIGUOUS: "The request names a preset and asks for automatic routing.",
        Code.ROUTING_NOT_CONFIGURED: "Automatic routing was asked for, and there is no `routes.toml` or no rule in it.",
        Code.ROUTING_HINTS_INVALID: "A hint has a field or a value that the vocabulary does not have. `details` has "
        "the field, the value, and the nearest valid name.",
        Code.ROUTING_CONFIG_INVALID: "The rules file has a defect, so no rule of it is used. `details` has file, line, "
        "the name found, the nearest valid name, and further defects.",
        Code.NO_ELIGIBLE_ROUTE: "No rule matches the hints; or several match equally well and none of their presets "
        "can be used, with `details.reasons`. No other preset is tried.",
        Code.AMBIGUOUS_ROUTE: "Several rules match equally well. `details.rules` has them in order, each with its "
        "preset and whether that is usable, broken or absent.",
        Code.CWD_NOT_FOUND: "`cwd` is no existing directory on this machine.",
        Code.REQUEST_KEY_CONFLICT: "The request key belongs to a task that was asked something else, `taskId`; or, "
        "of a follow-up, to another follow-up of this task.",
        Code.TASK_NOT_FOUND: "This journal has no such task.",
    },
    "The workspace claim": {
        Code.WORKSPACE_CONFLICT: "Another task holds this directory, one above it or one below it, and one of the two "
        "writes. `details` names the task. Nothing was made on the Host. Also for a follow-up, an answer or an allowed "
        "approval whose task's claim was released and is taken by another one.",
        Code.WORKSPACE_CLAIM_MISSING: "A release of a task that holds no claim; or a launch that finds its claim gone "
        "right before its prompt.",
        Code.TASK_BUSY: "A release of a task that is not known to be over. `details` has its execution.",
    },
    "The Host": {
        Code.HOST_UNREACHABLE: "No connection, or no answer in time. For a prompt: it is proven that the Host does not "
        "have it.",
        Code.LOGIN_REQUIRED: "The Host asks for a login, or does not accept the stored one any more.",
        Code.HOST_UNSUPPORTED: "The Host speaks the older wire, or lacks a call that Agentlink needs.",
        Code.HOST_CHANGED: "The task belongs to another Host than the one that answers, or it cannot be proven to be "
        "the same one.",
        Code.HOST_ERROR: "The Host refused with a code of its own, given as `details.hostCode`.",
        Code.BAD_HOST_REPLY: "Something answered that is not a DSH Web Host.",
        Code.MODEL_UNROUTABLE: "The Host has no credential or adapter for the model of the session. Nothing was sent.",
        Code.SESSION_NOT_FOUND: "The Host that owns the task no longer has its session.",
    },
    "The preset": {
        Code.PRESET_NOT_FOUND: "The Host does not know the preset that was named, or that the best rule names. "
        "`details.available` has those it knows.",
        Code.PRESET_BROKEN: "The preset that was named, or that the best rule names, does not work on the Host. "
        "`details.reason` says why.",
        Code.RESOLVED_PRESET_MISMATCH: "The session has another preset than the one asked for. Nothing was sent.",
        Code.RESOLVED_PRESET_UNOBSERVABLE: "A Host that reports presets did not report this one. Nothing was sent.",
        Code.ROUTING_VERIFICATION_UNAVAILABLE: "The Host does not report the preset of a session, so an automatic "
        "choice cannot be proven. Nothing was sent.",
        Code.SESSION_IDENTITY_MISMATCH: "The Host answered for another session than the one asked for. Nothing was "
        "sent.",
        Code.SESSION_NOT_BLANK: "Somebody else uses the session already. Nothing was sent by this attempt.",
    },
    "The prompt": {
        Code.DELIVERY_UNKNOWN: "The prompt was sent, its answer was lost, and the Host's history cannot be read yet. "
        "`promptSent` is null and the claim is kept. Of a follow-up: its `details.requestId` stays in `openWrites`.",
        Code.PROMPT_LOST: "The Host accepted the prompt and lost it in a crash. Proven by its log. Of a follow-up: "
        "`details.requestId` says which, and sending it again as a follow-up is safe.",
        Code.PROMPT_DISCARDED: "Somebody removed the prompt from the Host's queue, or the Host did while stopping.",
        Code.PROMPT_CONSUMED: "The Host took the prompt from its queue and ended the turn before the model saw it.",
    },
    "The launch": {
        Code.INTERRUPTED: "The process that drove the launch is gone. The prompt is proven not to be on the Host.",
        Code.NOT_RECOVERABLE: "The prompt of the task was sent, the task was abandoned, it left no session to "
        "abandon, or the Host still has the session that was said to be lost.",
        Code.CANCELED: "The caller cancelled before anything was made on the Host.",
        Code.LAUNCH_IN_PROGRESS: "Another process drives or settles this task, or writes to its session, at "
        "the moment.",
    },
    "A task that runs": {
        Code.NOT_PROMPTED: "A follow-up, an answer or a cancel for a task whose session has no prompt: its launch "
        "failed, or is still under way.",
        Code.STALE_VIEW: "Something that matters came after `sinceCursor`. `details` has what changed, the cursor of "
        "now and the execution. Nothing was sent.",
        Code.NOT_PENDING: "Nothing waits under this request id: it was answered, by whomever, or its turn ended, or "
        "the Host was restarted meanwhile. `details.settledAs` says what the log has of it, if it has it; "
        "`execution` and `pending` say what the task does and waits for instead.",
        Code.AMBIGUOUS_REQUEST: "Several pending items, or several offers of the Host, cannot be told apart. Nothing "
        "was sent.",
        Code.BAD_ANSWER: "An answer does not fit its question: an unknown or missing question, an unknown or doubled "
        "label, too many of them, or empty text. `details` has `questionId` and what is `allowed`. Nothing was sent.",
        Code.CURSOR_INVALID: "The cursor cannot be used. `details.reason`: `damaged` (no whole cursor of Agentlink), "
        "`foreign` (of another task), `newer` (made by a newer version).",
    },
    "Agentlink itself": {
        Code.JOURNAL_UNWRITABLE: "The state home cannot be read or written, or its file system has no locks. The step "
        "that needed the line was not taken.",
        Code.JOURNAL_CORRUPT: "A line of the journal is damaged, or an acknowledged line is missing. In the current "
        "segment nothing is written any more and what is provable can still be read. With a `taskId` in the error, "
        "only that task is affected, and writing goes on.",
        Code.JOURNAL_NEWER: "A newer version wrote this journal. This one only reads up to there.",
        Code.LOCK_TIMEOUT: "The journal was locked for more than 3 seconds.",
        Code.INTERNAL_ERROR: "A defect. The MCP server's standard error has the trace.",
    },
}

HEAD = """# Error codes

<!-- Made by docs/reference/make_error_codes.py; do not edit. -->

Every failure has a code, the same on the command line and over MCP. As JSON it is one envelope:

```json
{"error": {"code": "preset_not_found", "message": "Unknown agent preset: nope", "promptSent": false,
  "next": "Name one of the available presets.", "stage": "selected", "taskId": "dsh_67cb606eb3bd",
  "details": {"agentPreset": "nope", "available": ["standard", "minimal"]}}}
```

| field | |
| --- | --- |
| `code` | one of the codes below; branch on this, never on the message |
| `message` | for people; may hold the Host's words, without credentials and bounded in length |
| `promptSent` | always there: true, false, or null while it is unknown. Of a later write it is about that write |
| `next` | the next safe step |
| `stage` | the state that the launch had reached |
| `taskId`, `sessionId` | as far as they exist |
| `details` | facts that belong to the code; may be absent |

The code of a failed launch is also in the journal (`launch/failed`), in `agentlink status` and in `dsh_status`.
"""


def page() -> str:
    """The whole page. Raises ValueError when words and registry do not match."""
    told = [code for rows in WHEN.values() for code in rows]
    if sorted(told) != sorted(Code):
        raise ValueError(f"no words, or no code, for: {sorted(set(Code) ^ set(told))}")
    parts = [HEAD]
    for subject, rows in WHEN.items():
        parts.append(f"\n## {subject}\n\n| code | when | next |\n| --- | --- | --- |\n")
        parts += [f"| `{code.value}` | {when} | {NEXT[code]} |\n" for code, when in rows.items()]
    return "".join(parts)


if __name__ == "__main__":
    Path(__file__).with_name("error-codes.md").write_text(page(), encoding="utf-8")
