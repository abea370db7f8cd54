#!/bin/sh
# Delegate from a shell script with JSON output and nothing but sh and sed: no jq, no Python.
#
#   examples/shell.sh DIRECTORY PROMPT KEY
#
# KEY is your own id for this request (a build number, a ticket). Run the script again with the same three arguments
# and the task is found again, never started a second time.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 DIRECTORY PROMPT KEY" >&2; exit 2; }
directory=$1 prompt=$2 key=$3

# One text field of a JSON document on standard input. Quotes inside a text are escaped in JSON, so a message of the
# agent that mentions the same name cannot be mistaken for the field.
field() { sed -n "s/.*\"$1\":\"\([A-Za-z0-9_-]*\)\".*/\1/p"; }

if ! answer=$(printf '%s' "$prompt" | agentlink delegate - --cwd "$directory" --request-key "$key" --json); then
    printf 'not delegated: %s\n%s\n' "$(printf '%s\n' "$answer" | field code)" "$answer" >&2
    exit 1
fi
task=$(printf '%s\n' "$answer" | field taskId)
echo "task $task" >&2

# Exit status 3 only says that the turn did not complete, or not in ten minutes.
waited=$(agentlink wait "$task" --timeout 600 --json) || [ $? -eq 3 ] || { echo "$waited" >&2; exit 1; }
execution=$(printf '%s\n' "$waited" | field execution)

echo "$execution"
[ "$execution" = turn_completed ] || exit 3
# On a second run the claim is released already, which is no failure here.
agentlink release "$task" --json >/dev/null || true
