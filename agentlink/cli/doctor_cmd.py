"""`doctor`: what is configured, what works, and what to do about the rest."""

import os

import click

from agentlink.cli.output import EXIT_FAILURE, json_option, print_json, run_async


@click.command("doctor")
@json_option
def doctor_command(*, as_json: bool) -> int:
    """Check settings, home, journal, Host, wire and login. Changes nothing. Exit status 1 when a check failed."""
    from agentlink.app.doctor import examine

    report = run_async(lambda: examine(os.environ))
    if as_json:
        print_json(report)
    else:
        click.echo(f"agentlink {report.version}, Python {report.python}")
        width = max(len(check.name) for check in report.checks)
        for check in report.checks:
            click.echo(f"{check.verdict:8} {check.name:{width}}  {check.found}")
            if check.next is not None:
                click.echo(f"{'':8} {'':{width}}  next: {check.next}")
    return EXIT_FAILURE if report.verdict == "failed" else 0
