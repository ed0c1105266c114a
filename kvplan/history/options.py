"""History entries about how a command line is read.

Which options, choices and defaults a release has is a table (`kvplan/launch/data/options.json`, one row for each
run of releases in which an option stayed the same), not a list of entries; here are the changes to the reading
itself.
"""

from kvplan.releases import Behaviour

SERVED_NAME_NEEDS_MODEL = Behaviour(
    name="SERVED_NAME_NEEDS_MODEL",
    summary="`vllm serve --served-model-name …` without a model as first positional argument is refused",
    since="0.17.1",
    where="vllm/utils/argparse_utils.py",
)

DOTTED_VALUES_MAY_BE_HUMAN = Behaviour(
    name="DOTTED_VALUES_MAY_BE_HUMAN",
    summary="values of dotted options (`--kv-transfer-config.cpu_bytes 80g`) take k/m/g/t suffixes",
    since="0.20.2",
    reference="vllm#40473",
    where="vllm/utils/argparse_utils.py",
)

JSON_NUMBERS_MAY_BE_HUMAN = Behaviour(
    name="JSON_NUMBERS_MAY_BE_HUMAN",
    summary="unquoted numbers in JSON options may carry k/m/g/t suffixes",
    since="0.20.2",
    reference="vllm#40473",
    where="vllm/engine/arg_utils.py",
)

CONFIG_FILE_FALSE_NEGATES = Behaviour(
    name="CONFIG_FILE_FALSE_NEGATES",
    summary="`key: false` in a --config file becomes --no-key where the entry point's own parser has that option "
    "(the module entry point has; `vllm serve` has not, there it is still dropped)",
    since="0.28.0",
    reference="vllm#51573",
    where="vllm/utils/argparse_utils.py",
)
