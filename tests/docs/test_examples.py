"""Every example runs as it is written, against a real Host with a scripted model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentlink.lab import Lab

pytestmark = pytest.mark.host

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def running(real_lab: Lab) -> Lab:
    return real_lab


def run(running: Lab, home: Path, *command: str, said: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AGENTLINK_HOME": str(home),
        "AGENTLINK_HOST_URL": running.host.launch_url,
    }
    return subprocess.run(command, env=environment, input=said, capture_output=True, text=True, timeout=30, check=False)


def workspace(running: Lab, name: str) -> str:
    directory = running.host.workspace / name
    directory.mkdir()
    return str(directory)


def test_the_python_api_delegates_and_waits(running: Lab, tmp_path: Path) -> None:
    script = str(EXAMPLES / "delegate_and_wait.py")
    ended = run(running, tmp_path, sys.executable, script, workspace(running, "api"), "[[say: from Python]]", "minimal")
    assert (ended.returncode, ended.stdout) == (0, "from Python\n"), ended.stderr
    assert "preset minimal" in ended.stderr


def test_the_python_api_says_what_to_do_about_a_missing_preset(running: Lab, tmp_path: Path) -> None:
    script = str(EXAMPLES / "delegate_and_wait.py")
    ended = run(running, tmp_path, sys.executable, script, workspace(running, "missing"), "hello", "nobody")
    assert ended.returncode == 1
    assert ended.stderr.startswith("preset_not_found: ")


def test_an_mcp_client_lists_delegates_waits_and_releases(running: Lab, tmp_path: Path) -> None:
    script = str(EXAMPLES / "mcp_client.py")
    ended = run(running, tmp_path, sys.executable, script, workspace(running, "mcp"), "[[say: from MCP]]")
    assert (ended.returncode, ended.stdout) == (0, "from MCP\n"), ended.stderr
    assert "dsh_delegate" in ended.stderr


def test_what_the_agent_asks_is_put_to_the_person_and_the_answer_reaches_it(running: Lab, tmp_path: Path) -> None:
    script, directory = str(EXAMPLES / "ask_a_person.py"), workspace(running, "person")
    question = {"id": "q", "question": "Which one?", "header": "H", "options": [{"label": "Old"}, {"label": "New"}]}
    prompt = f"[[tool: ask_user_question {json.dumps({'questions': [question]})}]] [[say: as you said]]"
    ended = run(running, tmp_path, sys.executable, script, directory, prompt, said="New\n")
    assert (ended.returncode, ended.stdout) == (0, "as you said\n"), ended.stderr
    assert "Which one?  ['Old', 'New']" in ended.stderr
    assert ended.stderr.endswith(": in_history\n")


def test_without_a_person_nothing_is_decided(running: Lab, tmp_path: Path) -> None:
    script, directory = str(EXAMPLES / "ask_a_person.py"), workspace(running, "nobody")
    arguments = {"command": "true", "description": "d", "sandbox_permissions": "danger-full-access"}
    prompt = f"[[tool: bash {json.dumps(arguments | {'justification': 'why not'})}]] [[say: done]]"
    ended = run(running, tmp_path, sys.executable, script, directory, prompt, said="")
    assert ended.returncode == 1
    assert ended.stderr.endswith("the item stays pending\n")


def test_a_shell_script_needs_no_json_tool_and_may_be_repeated(running: Lab, tmp_path: Path) -> None:
    script, directory = str(EXAMPLES / "shell.sh"), workspace(running, "shell")
    told = 'shell-5521 [[say: "execution":"running" is only text]]'
    first = run(running, tmp_path, script, directory, told, "build-1")
    again = run(running, tmp_path, script, directory, told, "build-1")
    assert (first.returncode, first.stdout) == (0, "turn_completed\n"), first.stderr
    assert (again.returncode, again.stderr) == (0, first.stderr)  # the same task
    assert running.model.runs("shell-5521") == 1
