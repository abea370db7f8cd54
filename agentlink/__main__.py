"""The `agentlink` command. Nothing heavy is imported until a command needs it."""

import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    from agentlink.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
