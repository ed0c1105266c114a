"""What a scan reads: the files that were named and all below the folders that were, and nothing on a file's word."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.asking import kvplan

SECRET = "hunter2"
SERVE = "vllm serve Qwen/Qwen3-0.6B"
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 64,
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with files outside of it that hold a secret."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.yaml").write_text(f"users: [{{token: {SECRET}}}]\n")
    (outside / ".env").write_text(f"PASSWORD={SECRET}\n")
    (outside / "run.sh").write_text(f"{SERVE} --served-model-name {SECRET}\n")
    (outside / "config.json").write_text(json.dumps({**CONFIG, "head_dim": SECRET}))
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    return repository


def told(*paths: str) -> tuple[dict[str, Any], str]:
    """The report, and all that was said."""
    result = kvplan("scan", *(paths or (".",)), "--format", "json", "--offline", "--isolated", "--gpu", "h200")
    assert SECRET not in result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report, result.output


@pytest.mark.parametrize(
    "options",
    [
        "--config {outside}/secret.yaml",
        "--config ../outside/secret.yaml",
        "--config nope.yaml --config {outside}/secret.yaml",
        "--config link.yaml",
        "--config folder/secret.yaml",
        "--config /proc/self/environ.yaml",
        "--config a.yaml --config /proc/self/environ.yaml",
    ],
)
def test_no_option_file_outside(options: str, tree: Path) -> None:
    outside = tree.parent / "outside"
    (tree / "run.sh").write_text(f"{SERVE} {options.format(outside=outside)}\n")
    (tree / "link.yaml").symlink_to(outside / "secret.yaml")
    (tree / "folder").symlink_to(outside)
    report, _ = told("run.sh")
    launch = report["launches"][0]
    rules = {finding["rule"] for finding in launch["findings"]}
    # Two of them are refused by vLLM before either is read; one is said not to be known.
    assert rules & {"KV101", "KV908"}


def test_an_option_file_of_the_tree_is_read_through_parents_and_links(tree: Path) -> None:
    (tree / "deploy").mkdir()
    (tree / "common.yaml").write_text("max-model-len: 1024\n")
    (tree / "deploy" / "linked.yaml").symlink_to("../common.yaml")
    (tree / "deploy" / "a.sh").write_text(f"{SERVE} --config ../common.yaml\n")
    (tree / "deploy" / "b.sh").write_text(f"{SERVE} --config linked.yaml\n")
    report, _ = told(".")
    lengths = [launch["launch"]["options"]["max_model_len"]["value"] for launch in report["launches"]]
    assert lengths == [1024, 1024]


def test_no_env_file_outside_and_none_of_this_process(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKED", SECRET)
    (tree / "docker-compose.yaml").write_text(
        "services:\n"
        "  a:\n"
        "    image: vllm/vllm-openai:v0.33.0\n"
        "    env_file: [../outside/.env, /proc/self/environ]\n"
        '    command: [sh, -c, \'vllm serve Qwen/Qwen3-0.6B --leak "$PASSWORD" --other "$LEAKED"\']\n'
        "    entrypoint: []\n"
    )
    report, _ = told(".")
    assert ["lies outside of what is scanned" in one["reason"] for one in report["unreadable"]] == [True, True]


def test_links_are_not_followed_out_of_the_tree(tree: Path) -> None:
    (tree / "run.sh").symlink_to("../outside/run.sh")
    (tree / "all").symlink_to("/")
    (tree / "others").symlink_to("../outside")
    report, _ = told(".")
    assert report["launches"] == []
    assert [(one["file"], "leads out" in one["reason"]) for one in report["unreadable"]] == [
        ("all", True),
        ("others", True),
        ("run.sh", True),
    ]


def test_links_within_the_tree_are_read_once(tree: Path) -> None:
    (tree / "ops").mkdir()
    (tree / "ops" / "run.sh").write_text(f"{SERVE}\n")
    (tree / "deploy").symlink_to("ops")
    (tree / "ops" / "up").symlink_to("..")
    report, _ = told(".")
    assert [launch["found"]["location"]["file"] for launch in report["launches"]] == ["ops/run.sh"]
    assert report["unreadable"] == []


def test_a_named_link_is_what_was_named(tree: Path) -> None:
    (tree.parent / "real.sh").write_text(f"{SERVE}\n")
    (tree / "run.sh").symlink_to("../real.sh")
    report, _ = told("run.sh")
    assert len(report["launches"]) == 1


@pytest.mark.parametrize("model", ["folder", "./folder", "Qwen/Qwen3-0.6B"])
def test_no_model_outside(model: str, tree: Path) -> None:
    outside = tree.parent / "outside"
    for name in ("folder", "Qwen/Qwen3-0.6B"):
        (tree / name).mkdir(parents=True)
        (tree / name / "config.json").symlink_to(outside / "config.json")
    (tree / "run.sh").write_text(f"vllm serve {model}\n")
    report, said = told("run.sh")
    if model.startswith("Qwen"):
        # The catalog has one of that name.
        assert len(report["launches"]) == 1
    else:
        assert len(report["unreadable"]) == 1
    assert "head_dim" not in said or len(report["launches"]) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_or_device_among_the_files_holds_nothing_up(tree: Path) -> None:
    os.mkfifo(tree / "pipe.yaml")
    (tree / "zero.yaml").symlink_to("/dev/zero")
    (tree / "run.sh").write_text(f"{SERVE} --config pipe.yaml\n")
    report, _ = told(".")
    assert len(report["launches"]) == 1
