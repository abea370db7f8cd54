"""The `agentlink` command. Nothing heavy is imported until a command needs it."""

import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    from agentlink.cli.main import run

    sys.exit(run(sys.argv[1:], serve=_serve))


def _serve() -> None:
    """Shells know nothing of each other, so the command line is handed the server here."""
    from agentlink.mcp_server.stdio import serve

    serve()


if __name__ == "__main__":
    main()
