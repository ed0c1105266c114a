"""From the command line to the engine's config, by vLLM's own parser and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tests.oracle.inside.versions import argument_parser


class ArgError(Exception):
    """The parser refuses; on a command line it would end the process."""


def parsed(folder: str, flags: Sequence[str]) -> Any:
    """Engine arguments of `vllm serve FOLDER FLAGS…`; raises ArgError. No tokenizer is looked for."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    parser = AsyncEngineArgs.add_cli_args(argument_parser())
    parser.error = _refuse
    arguments = AsyncEngineArgs.from_cli_args(parser.parse_args(["--model", folder, *flags]))
    arguments.skip_tokenizer_init = True
    return arguments


def configured(arguments: Any) -> Any:
    """The engine's config, with all that vLLM checks while it makes it."""
    from vllm import envs
    from vllm.usage.usage_lib import UsageContext

    config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
    if "VLLM_USE_V1" in envs.environment_variables and not envs.VLLM_USE_V1:
        raise NotImplementedError("the release runs this question on its V0 engine, which this oracle does not run")
    return config


def _refuse(message: str) -> NoReturn:
    raise ArgError(message)
