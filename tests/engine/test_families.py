"""The list of families and what its files say: all of it is there, all of it is used, and one more costs two files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.models import build, drafts, families, registered
from kvplan.engine.models.families.general import GENERAL
from kvplan.engine.models.families.wrapper import WRAPPER
from kvplan.engine.models.family import Family
from kvplan.engine.models.registered import Registration
from kvplan.engine.models.towers import TOWERS
from kvplan.releases import KNOWN, resolve

NEWEST = resolve("latest")


def registrations() -> list[Registration]:
    """All that any known release registers."""
    names = {name for release in map(resolve, KNOWN) for name in registered.architectures(release)}
    return [entry for name in sorted(names) for entry in registered.known_to(name)]


def all_families() -> list[Family]:
    listed = [family for file in families.FILES for family in families.in_file(file)]
    return [*listed, GENERAL, WRAPPER]


def test_every_file_is_listed_and_every_listed_file_loads() -> None:
    folder = Path(families.__file__).parent
    assert set(families.FILES) == {file.stem for file in folder.glob("*.py")} - {"__init__", "general", "wrapper"}
    for file in families.FILES:
        assert all(isinstance(family, Family) for family in families.in_file(file))


def test_names_are_unique() -> None:
    names = [family.name for family in all_families()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("file", families.FILES)
def test_the_list_has_the_modules_that_a_file_speaks_of(file: str) -> None:
    listed = families.FILES[file]
    spoken = {name for family in families.in_file(file) for name in (*family.modules, *family.drafts)}
    assert {name for name in spoken if name in listed or name.partition(":")[0] in listed} == spoken
    assert set(listed) <= spoken | {name.partition(":")[0] for name in spoken}


def test_no_module_is_in_two_files() -> None:
    listed = [module for modules in families.FILES.values() for module in modules]
    everywhere = [*listed, *GENERAL.modules, *WRAPPER.modules]
    assert len(everywhere) == len(set(everywhere))


def test_every_family_and_all_it_says_is_reached_by_a_registered_class() -> None:
    places = {place for entry in registrations() for place in (entry.module, f"{entry.module}:{entry.class_name}")}
    built: set[str] = set()
    for entry in registrations():
        for release in map(resolve, KNOWN):
            if entry.span.covers(release.acts_as):
                built.add(families.of(entry, release)[0].name)
        found = families.draft_of(entry) if entry.kind == "draft" else None
        built |= set() if found is None else {found[0].name}
    for family in all_families():
        assert family.name in built
        assert {*family.modules, *family.drafts} <= places
        assert {name.partition(":")[0] for name in family.modules} >= set(family.towers)
        assert set(family.hooks) <= {entry.architecture for entry in registrations()}


def test_towers_are_told_in_one_place() -> None:
    told = [module for family in all_families() for module in family.towers]
    assert len({*told, *TOWERS}) == len(told) + len(TOWERS)


def test_hooks_are_found_by_the_name_in_the_config() -> None:
    for family in all_families():
        for architecture, hook in family.hooks.items():
            assert families.hook_of(architecture, NEWEST) is hook
    assert families.hook_of("LlamaForCausalLM", NEWEST) is None
    assert families.hook_of("NoSuchForCausalLM", NEWEST) is None


def test_only_the_family_asked_for_is_imported() -> None:
    code = (
        "import sys, kvplan.engine.models\n"
        "from kvplan.engine.models import families, registered\n"
        "from kvplan.releases import resolve\n"
        "def loaded():\n"
        "    return sorted(file for file in families.FILES if f'{families.__name__}.{file}' in sys.modules)\n"
        "print(loaded())\n"
        "release = resolve('latest')\n"
        "families.of(registered.lookup('MiMoV2ForCausalLM', release), release)\n"
        "print(loaded())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["[]", "['mimo_v2']"]


TOY = '''
from kvplan.engine.models import general
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.recipe import named

def layers(made):
    """Every second layer slides over 64 tokens."""
    return general.uniform(made, tuple(64 if index % 2 else None for index in range(made.count)))

FAMILIES = (
    Family(
        name="toy",
        modules={"toy": named("decoder.{i}.attn")},
        layers=layers,
        drafts={"toy": DraftRecipe(layout="mtp.{i}.attn")},
        never_shares_prefixes=True,
    ),
)
'''


def toy(architecture: str) -> Checkpoint:
    config: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": "toy",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 1024,
        "num_nextn_predict_layers": 1,
    }
    return Checkpoint(
        reference="toy",
        name="toy",
        source=Source.FILE,
        path="config.json",
        config_sha256="",
        config=config,
        text_config=config,
        architectures=(architecture,),
        model_type="toy",
    )


def test_a_new_family_is_one_file_and_one_line_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    monkeypatch.setitem(families.FILES, "toy", ("toy",))
    monkeypatch.setitem(sys.modules, f"{families.__name__}.toy", None)
    monkeypatch.delitem(sys.modules, f"{families.__name__}.toy")  # as it was; what the import adds goes at the end
    classes = {
        "ToyForCausalLM": Registration("ToyForCausalLM", "toy", "ToyForCausalLM", "gP", "decoder"),
        "ToyMTPModel": Registration("ToyMTPModel", "toy", "ToyMTP", "g", "draft"),
    }
    known = registered.lookup
    monkeypatch.setattr(registered, "lookup", lambda name, release: classes.get(name) or known(name, release))
    found = build(toy("ToyForCausalLM"), NEWEST)
    beside = drafts.build(toy("ToyMTPModel"), NEWEST, found, stage_layers=4, tokens=1)
    assert (found.family, found.never_shares_prefixes) == ("toy", True)
    assert [(layer.name, layer.sliding_window) for layer in found.layers] == [
        ("decoder.0.attn", None),
        ("decoder.1.attn", 64),
        ("decoder.2.attn", None),
        ("decoder.3.attn", 64),
    ]
    assert [layer.name for layer in beside] == ["mtp.4.attn"]
