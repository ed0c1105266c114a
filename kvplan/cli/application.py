"""The `kvplan` command: its sub-commands, and how it ends.

Exit codes: 0 nothing found, 1 something found, 2 the input cannot be used, or kvplan itself fails. A refusal is one
line on stderr, with nothing on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from kvplan.cli.failing import FLAG, option
from kvplan.cli.failing import tell as tell_failure
from kvplan.cli.output import give_up_stdout, line, say
from kvplan.errors import InputError

COMMANDS = ("check", "scan", "plan", "why", "sweep", "explain", "rules", "releases", "models", "completion")

_INTERRUPTED = 130


class InputProblem(click.ClickException):
    """An InputError on its way to the terminal."""

    exit_code = 2


class Application(click.Group):
    """A group that imports a command when it is called and turns InputError into one line and exit code 2."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The commands in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"kvplan.cli.commands.{cmd_name}").command
        if not any(FLAG in parameter.opts for parameter in command.params):
            command.params.append(option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a refusal that lists the commands there are."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise InputProblem(f"there is no command {args[0]!r}: use one of {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; its return value is the exit code."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            say(getattr(error, "__notes__", ()))
            raise InputProblem(str(error)) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's own, but the exit code is what the command returns, and every refusal is one line."""
        name = prog_name or "kvplan"
        if not standalone_mode:
            return super().main(args, name, complete_var, False, **extra)
        try:
            code = super().main(args, name, complete_var, False, **extra)
        except click.ClickException as error:
            line(f"kvplan: {' '.join(error.format_message().split())}{_hint(error)}")
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = _INTERRUPTED
        except BrokenPipeError:
            give_up_stdout()
            code = 0
        except Exception as error:
            # Never 1, which means that something was found.
            tell_failure(error, sys.argv[1:] if args is None else args)
            code = InputProblem.exit_code
        sys.exit(code if isinstance(code, int) else 0)


def _hint(error: click.ClickException) -> str:
    """Where a wrong use is explained."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" (see {error.ctx.command_path} --help)"
    return ""


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from kvplan import __version__
    from kvplan.releases import KNOWN

    click.echo(f"kvplan {__version__}, knows vLLM {KNOWN[0]} to {KNOWN[-1]}: {', '.join(KNOWN)}")
    ctx.exit()


@click.group(
    cls=Application,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
\b
Examples:
  kvplan check GLM-5.2-FP8 --skip-layers 0,1
  kvplan check --gpu b200 --vllm-version 0.33.0 -- vllm serve zai-org/GLM-5.2-FP8 -tp 8
  kvplan why GLM-5.2-FP8 --kv-cache-dtype fp8 --layer 0
""",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show kvplan's version and the vLLM releases it knows.",
)
@click.option(FLAG, is_flag=True, expose_value=False, help="Where kvplan itself fails, show the traceback.")
@click.pass_context
def main(ctx: click.Context) -> int:
    """What vLLM will do with the KV cache, told before the deploy and without a GPU."""
    if ctx.invoked_subcommand is not None:
        return 0
    click.echo(ctx.get_help(), err=True)
    return InputProblem.exit_code
