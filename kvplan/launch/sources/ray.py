"""Ray Serve LLM: `llm_configs` of a serve config, alone or inside a RayService."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch, Unreadable
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Source
from kvplan.launch.sources import containers, gpus, typed
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, YamlProblem, documents


def recognises(document: Node) -> bool:
    """A RayService whose serve config names models, or such a config itself."""
    if not isinstance(document, Mapping):
        return False
    config = document.scalar("spec", "serveConfigV2")
    if config is not None:
        return "llm_config" in config.text or "model_loading_config" in config.text
    return any(_configs(document)) or _is_config(document)


def launches(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """One launch a model."""
    assert isinstance(document, Mapping)
    text = document.scalar("spec", "serveConfigV2")
    around = replace(reader.around, kind="Ray Serve LLM", name=document.text("metadata", "name"))
    inner = replace(reader, around=around)
    if text is None:
        for config in [document] if _is_config(document) else _configs(document):
            yield from _launch(config, inner)
        return
    passage = text.passage
    try:
        for part in documents(Source(passage.file, passage.text, passage)):
            for config in _configs(part):
                yield from _launch(config, inner)
    except YamlProblem as problem:
        yield Unreadable(passage.file, f"serveConfigV2: {problem.reason}", problem.location)


def _is_config(node: Mapping) -> bool:
    return node.mapping("model_loading_config") is not None


def _configs(node: Node) -> Iterator[Mapping]:
    """Every LLMConfig of a serve config."""
    if not isinstance(node, Mapping):
        return
    for application in node.items("applications"):
        arguments = application.mapping("args") if isinstance(application, Mapping) else None
        if arguments is None:
            continue
        listed = [*arguments.items("llm_configs"), *arguments.items("llm_config")]
        single = [arguments.get(name) for name in ("llm_config", "prefill_config", "decode_config")]
        for config in (*listed, *single):
            if isinstance(config, Mapping) and _is_config(config):
                yield config


def _launch(config: Mapping, reader: Reader) -> Iterator[Found]:
    loading = config.mapping("model_loading_config")
    assert loading is not None
    source = loading.scalar("model_source") or loading.scalar("model_id")
    model = typed.model(source)
    accelerator = config.scalar("accelerator_type")
    environment = containers.environment(config.get("runtime_env", "env_vars"))
    named = loading.text("model_id")
    around = replace(
        reader.around,
        name="/".join(part for part in (reader.around.name, named) if part),
        gpu=None if accelerator is None else gpus.read(accelerator.text),
        environment=environment,
        release_reason="the config does not say which vLLM Ray runs",
    )
    engine = config.get("engine_kwargs")
    words = ([] if model is None else [model]) + typed.fields(
        engine if isinstance(engine, Mapping) else None, ("model",)
    )
    if isinstance(source, Scalar):
        yield FoundLaunch(entry=EntryPoint.SERVE, words=tuple(words), location=config.location, around=around)
    else:
        place = config.location
        yield Unreadable(place.file, f"Ray Serve LLM {named}: the model's source is not a name", place)
