"""`kvplan completion`: the script that makes a shell complete kvplan's command lines."""

from __future__ import annotations

import click

from kvplan.cli.output import write

_VARIABLE = "_KVPLAN_COMPLETE"


@click.command(
    "completion",
    short_help="Print the script that makes a shell complete kvplan.",
    epilog="""
\b
Examples:
  eval "$(kvplan completion bash)"                 in ~/.bashrc
  eval "$(kvplan completion zsh)"                  in ~/.zshrc
  kvplan completion fish | source                  in ~/.config/fish/config.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print the script that makes SHELL complete commands, options, models, releases, GPUs, rules, and vLLM's own
    options with their values."""
    from click.shell_completion import get_completion_class

    from kvplan.cli.application import main

    script = get_completion_class(shell)
    assert script is not None
    write(script(main, {}, "kvplan", _VARIABLE).source(), None)
    return 0
