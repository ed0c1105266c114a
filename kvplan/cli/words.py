"""Commands about one launch: kvplan's options and vLLM's stand side by side, and a literal command after `--`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

_META = "kvplan.words"

_COMMANDS_OF = {"--fail-on": "check and plan", "--layer": "why", "--value": "why"}
"""Options that not every command about a launch has. Where they are missing they must not pass for short forms of
vLLM's (`--fail-on-environ-validation`)."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a command line that are not kvplan's own options, in their order.

    `options` are the model and vLLM's options given directly; `literal` is the command after `--`, None without
    one.
    """

    options: tuple[str, ...]
    literal: tuple[str, ...] | None


def words_of(ctx: click.Context) -> Words:
    """The words that the command of `ctx` was called with."""
    found: Words = ctx.meta[_META]
    return found


class PassedOn(click.Option):
    """An option that `--help` shows and that is left among the launch's own words."""


class LaunchCommand(click.Command):
    """A command that takes kvplan's options wherever they stand before `--` and leaves every other word alone.

    click's own parser would divide `-tp` into letters and drop the `--`; vLLM's words must reach the launch room
    unchanged and in order.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Divide the words, and let click parse kvplan's."""
        head, literal = _at_separator(args)
        mine, theirs = self._divide(ctx, head)
        ctx.meta[_META] = Words(tuple(theirs), literal)
        return super().parse_args(ctx, mine)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """kvplan's own options, and what may come next of the launch."""
        from kvplan.cli.completing import launch_words

        words = words_of(ctx)
        own = super().shell_complete(ctx, incomplete) if words.literal is None else []
        return [*own, *launch_words(ctx, words.options, words.literal, incomplete)]

    def collect_usage_pieces(self, _ctx: click.Context) -> list[str]:
        """What `--help` shows behind the command's name."""
        return ["[OPTIONS]", "MODEL [VLLM OPTIONS]", "| [OPTIONS] -- vllm serve MODEL [VLLM OPTIONS]"]

    def _divide(self, ctx: click.Context, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """kvplan's options (as click wants them) and all other words."""
        takes_value = {
            name: not (isinstance(parameter, click.Option) and parameter.is_flag)
            for parameter in self.get_params(ctx)
            if not isinstance(parameter, PassedOn)
            for name in parameter.opts
        }
        mine: list[str] = []
        theirs: list[str] = []
        rest = iter(words)
        for word in rest:
            flag, equals, value = word.partition("=")
            name = f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag
            if name not in takes_value:
                if name in _COMMANDS_OF:
                    raise click.UsageError(f"{name} is an option of kvplan {_COMMANDS_OF[name]} only", ctx)
                theirs.append(word)
            elif equals or not takes_value[name]:
                mine.append(f"{name}{equals}{value}")
            else:
                following = next(rest, None)
                mine.append(name if following is None else f"{name}={following}")
        return mine, theirs


def _at_separator(words: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """The words before the first `--`, and those behind it."""
    if "--" not in words:
        return list(words), None
    at = words.index("--")
    return list(words[:at]), tuple(words[at + 1 :])
