"""The options of `vllm serve`: flags, how their text is read, choices and defaults.

`make_arg_parser` and the functions it calls are followed with a parser that only takes notes.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvplan.launch import options
from kvplan.releases import Release
from tests.upstream import classes, hints
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, Undecided, Unread
from tests.upstream.facts import Facts, Subject
from tests.upstream.hints import BOOLEAN, Type, Wording
from tests.upstream.sources import Moved, Sources

FRONTEND = ("entrypoints/common/cli_args.py", "entrypoints/launchers/cli_args.py", "entrypoints/openai/cli_args.py")
ENGINE = "engine/arg_utils.py"


@dataclass(frozen=True, slots=True)
class Parser:
    """Notes what is added to it and to its groups."""

    added: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)

    def called(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method call of vLLM's code on the parser."""
        if method == "add_argument":
            self.added.append((args, kwargs))
        return self


@dataclass(frozen=True, slots=True)
class Registered:
    """The options of one release as they were added, and the config classes that some take, by option."""

    options: Mapping[str, Mapping[str, Any]]
    config_classes: Mapping[str, ClassRef]
    evaluator: Evaluator


def registered(sources: Sources) -> Registered:
    frontend, engine = sources.first(*FRONTEND), sources.first(ENGINE)
    wording = _wording(sources)
    lent: dict[str, Any] = {
        "sys.argv": [],
        "optional_type": lambda of: Type(_type(of).kind, optional=True),
        "parse_type": lambda of: Type("parsed_json") if _type(of).kind == "json" else _type(of),
        "json.loads": Type("json"),
        "union_dict_and_str": Type("json_or_str"),
        "human_readable_int": Type("human_int"),
        "human_readable_int_or_auto": Type("human_int_or_auto"),
        "parse_reasoning_parser": Type("reasoning_parser"),
        "current_platform.device_type": "cuda",
        "load_general_plugins": lambda: None,
        "permutations": itertools.permutations,
        "copy.deepcopy": lambda value: value,
    }
    evaluator = Evaluator(sources, lent)
    plain = Evaluator(sources)

    def get_kwargs(owner: Any) -> dict[str, dict[str, Any]]:
        if not isinstance(owner, ClassRef):
            raise Moved(f"get_kwargs is called with {owner}: `options` must learn to find the config class")
        return hints.kwargs_of(plain, owner, wording)

    lent["get_kwargs"] = get_kwargs
    owner = evaluator.constant(frontend, "FrontendArgs")
    if not isinstance(owner, ClassRef):
        raise Moved(f"{frontend.path} has no FrontendArgs: `options` must learn the new place")
    lent["cls._customize_cli_kwargs"] = lambda made: _customised(evaluator, owner, made)
    lent["super()._customize_cli_kwargs"] = lambda made: made
    lent["FrontendArgs.add_cli_args"] = lambda parser: _frontend(evaluator, owner, parser)
    parser = Parser()
    make = evaluator.constant(frontend, "make_arg_parser")
    if not isinstance(make, FunctionRef):
        raise Moved(f"{frontend.path} has no make_arg_parser: `options` must learn the new place")
    try:
        evaluator.run(make, parser)
    except Undecided as undecided:
        raise Moved(f"the parser depends on {undecided}: `options` must learn it") from None
    if len(parser.added) < 50:
        raise Moved(
            f"only {len(parser.added)} options found from {engine.path}: `options` must learn how they are added"
        )
    found = [_option(flags, kwargs) for flags, kwargs in parser.added]
    return Registered(
        {name: option for name, option, _ in found},
        {name: owner for name, _, owner in found if owner is not None},
        plain,
    )


def _frontend(evaluator: Evaluator, owner: ClassRef, parser: Parser) -> Parser:
    function = classes.attribute(evaluator, owner, "add_cli_args")
    takes_class = any(ast.unparse(one) == "classmethod" for one in function.node.decorator_list)
    evaluator.run(function, *((owner, parser) if takes_class else (parser,)))
    return parser


def _customised(evaluator: Evaluator, owner: ClassRef, made: dict[str, Any]) -> dict[str, Any]:
    """The frontend's options after the methods of its classes, oldest base first, had their say."""
    for one in reversed(classes.lineage(evaluator, owner)):
        function = classes.own_method(one, "_customize_cli_kwargs")
        if function is not None:
            made = evaluator.run(function, owner, made)
    return made


def _wording(sources: Sources) -> Wording:
    """What get_kwargs says by name: its tests on `name`, and what it appends to choices."""
    names = sources.first(ENGINE).names
    function = names.get("_compute_kwargs") or names.get("get_kwargs")
    if not isinstance(function, ast.FunctionDef):
        raise Moved(f"{ENGINE} has no get_kwargs: `options` must learn the new place")
    sets = {
        target.id: ast.literal_eval(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    human: dict[str, str] = {}
    nothing: str | None = None
    for node in ast.walk(function):
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="name"), comparators=[compared])):
                meant = sets[compared.id] if isinstance(compared, ast.Name) else ast.literal_eval(compared)
                automatic = "human_readable_int_or_auto" in ast.unparse(node.body[0])
                kind = "human_int_or_auto" if automatic else "human_int"
                human |= dict.fromkeys([meant] if isinstance(meant, str) else meant, kind)
            case ast.Call(func=ast.Attribute(attr="append"), args=[ast.Constant(value=str() as value)]):
                nothing = value
            case _:
                pass
    return Wording(human, nothing)


def _option(flags: list[str], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any], ClassRef | None]:
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    name = kwargs.get("dest") or long.removeprefix("--").replace("-", "_")
    action = kwargs.get("action")
    boolean = isinstance(action, Unread) and action.text == BOOLEAN
    made = Type("bool") if boolean else Type("true") if action == "store_true" else _type(kwargs.get("type"))
    if isinstance(action, ClassRef) and "LoRA" in action.name:
        made = Type("lora", optional=made.optional)
    option = {
        "flags": sorted(flag for flag in flags if flag.startswith("-")),
        "kind": made.kind,
        "optional": made.optional,
        "nargs": kwargs.get("nargs"),
        "append": action == "append",
        "choices": hints.plain(kwargs.get("choices")),
        "default": hints.plain(False if made.kind == "true" else kwargs.get("default")),
        "const": hints.plain(kwargs.get("const")),
        "deprecated": kwargs.get("deprecated", False),
    }
    return name, _short(option), kwargs.get("class") if made.kind == "dataclass" else None


def _type(given: Any) -> Type:
    """What reads the text, from the `type` that vLLM's code gives."""
    if isinstance(given, Type):
        return given
    if given is None:
        return Type("any")
    if isinstance(given, type):
        return Type(given.__name__)
    if isinstance(given, FunctionRef):
        text = ast.unparse(given.node)
        if ".lower()" in text:
            return Type("lower")
        if "isdigit()" in text:
            return Type("device_ids")
    raise Moved(f"an option is read by {given}: `options` must learn that type")


def _short(option: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in option.items() if value is not None and (value is not False or name == "default")
    }


def read(sources: Sources) -> Facts:
    """Option by option, by its name in the parsed arguments."""
    return registered(sources).options


def field_names(sources: Sources, option: str) -> frozenset[str]:
    """The names under which vLLM's code knows an option: its own, and those of the config fields that
    `create_engine_config` and its helpers fill with it (`cache_dtype=self.kv_cache_dtype`)."""
    found = {option}
    for node in ast.walk(sources.first(ENGINE).tree):
        match node:
            case ast.keyword(arg=str() as name, value=ast.expr() as value):
                if ast.unparse(value) in (f"self.{option}", f"args.{option}"):
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def told(release: Release) -> Facts:
    """kvplan's options, without the flags that only negate another."""
    return {name: _told(option) for name, option in options.table_of(release).by_name.items() if name != "help"}


def _told(option: options.Option) -> dict[str, Any]:
    return _short(
        {
            "flags": sorted(flag for flag in option.flags if not option.negates(flag)),
            "kind": str(option.kind),
            "optional": option.optional,
            "nargs": option.nargs,
            "append": option.append,
            "choices": None if option.choices is None else list(option.choices),
            "default": option.default,
            "const": option.const,
            "deprecated": option.deprecated,
        }
    )


def row(name: str, value: Any, since: str) -> str:
    """A line of kvplan's file; a switch also needs its negations among the flags."""
    return json.dumps({"dest": name, **value, "since": since}) + ","


def config_fields(sources: Sources) -> Facts:
    """By option that takes a config object: the names of its fields."""
    found = registered(sources)
    return {
        name: sorted(classes.fields(found.evaluator, owner)) for name, owner in sorted(found.config_classes.items())
    }


def told_fields(release: Release) -> Facts:
    """kvplan's fields."""
    names = options.table_of(release).by_name
    known = {name: options.fields_of(name, release) for name in names}
    return {name: sorted(fields) for name, fields in known.items() if fields is not None}


SUBJECT = Subject(name="options", table="launch/data/options.json", read=read, told=told, row=row)
CONFIG_FIELDS = Subject(
    name="config_fields", table="launch/data/config_fields.json", read=config_fields, told=told_fields
)
