"""Each format's launches as they are found: words, places, and what stands around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.files import ground_of
from kvplan.launch.found import FoundLaunch, Unreadable
from kvplan.launch.locations import Location
from kvplan.launch.passages import Source
from kvplan.launch.resolving import Answers
from kvplan.launch.scanning import FileResult, Text, launches

MANIFESTS = Path(__file__).parent / "manifests"


def found_in(text: str, name: str = "x.yaml", **answers: str) -> FileResult:
    return launches(Text(Source(name, text), None), Answers(environment=answers))


def launch_in(text: str, name: str = "x.yaml", **answers: str) -> FoundLaunch:
    found = found_in(text, name, **answers).found
    assert len(found) == 1, found
    assert isinstance(found[0], FoundLaunch), found
    return found[0]


def words(launch: FoundLaunch) -> list[str]:
    return [word.text for word in launch.words]


def places(launch: FoundLaunch) -> list[tuple[int, int]]:
    return [(word.location.line, word.location.column) for word in launch.words]


def manifest(name: str) -> list[FoundLaunch | Unreadable]:
    path = MANIFESTS / name
    return list(launches(Text(Source(name, path.read_text("utf-8")), path, ground_of([path])), Answers()).found)


def launches_of(name: str) -> list[FoundLaunch]:
    return [one for one in manifest(name) if isinstance(one, FoundLaunch)]


def test_deployment_with_lists() -> None:
    (launch,) = launches_of("kubernetes/glm-deployment.yaml")
    assert words(launch)[:7] == [
        "zai-org/GLM-5.2-FP8",
        "--tensor-parallel-size=8",
        "--kv-cache-dtype",
        "fp8",
        "--kv-cache-dtype-skip-layers",
        "0",
        "1",
    ]
    assert places(launch)[:7] == [(21, 15), (22, 15), (23, 15), (24, 15), (25, 15), (26, 16), (27, 16)]
    around = launch.around
    assert (around.kind, around.name, around.release, around.count) == ("Deployment", "glm/vllm", "0.25.1", 8)
    assert around.gpu is not None
    assert around.gpu.name == "h200"
    assert launch.location == Location("kubernetes/glm-deployment.yaml", 19, 22)


def test_kinds_nobody_listed() -> None:
    found = launches_of("kubernetes/many-kinds.yaml")
    assert [(one.around.kind, one.around.name, one.around.release) for one in found] == [
        ("StatefulSet", "llama/server", "0.33.0"),
        ("Job", "nightly/batch", None),
        ("LeaderWorkerSet", "big/leader", "0.26.0"),
        ("ModelRunner", "special/vllm", "0.24.0"),
    ]
    stateful, job, leader, custom = found
    assert words(stateful)[:2] == ["--model", "meta-llama/Llama-3.1-8B"]
    assert stateful.words[1].location == Location("kubernetes/many-kinds.yaml", 19, 36)
    assert stateful.around.gpu is not None
    assert stateful.around.gpu.name == "l4"
    assert job.entry.name == "MODULE"
    assert words(leader)[-2:] == ["--kv-cache-dtype", "fp8"]
    assert places(leader)[-2:] == [(51, 17), (51, 34)]
    assert custom.around.gpu is not None
    assert (custom.around.gpu.name, custom.around.gpu.count) == ("h100", 8)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("vllm serve a --x 1", ["a", "--x", "1"]),
        ("exec vllm serve 'a b' \"c\" d\\ e", ["a b", "c", "d e"]),
        ("M=a; vllm serve $M \"$M\" '$M'", ["a", "a", "$M"]),
        ("M='a b'\nvllm serve $M \"$M\"", ["a", "b", "a b"]),
        ("vllm serve ${M:-a} ${N:-${M:-b}}", ["a", "b"]),
        ("A=(x 'y z')\nA+=(w)\nvllm serve \"${A[@]}\"", ["x", "y z", "w"]),
        ("true && vllm serve a \\\n  --x 1 | tee log", ["a", "--x", "1"]),
        ('FLAGS="--x 1\nsecond"\nvllm serve a $FLAGS', ["a", "--x", "1", "second"]),
        ('eval "vllm serve a --x"', ["a", "--x"]),
        ("bash -lc 'vllm serve $0 $1' a b", ["a", "b"]),
        ("sh <<'EOF'\nvllm serve a\nEOF", ["a"]),
        ("ssh host 'cd x && vllm serve a'", ["a"]),
        ("srun --gpus 8 vllm serve a", ["a"]),
        ("if true; then M=a; vllm serve $M; fi", ["a"]),
        ("uv run --with vllm==0.25.1 vllm serve a", ["a"]),
        ("python3 -u -m vllm.entrypoints.openai.api_server --model a", ["--model", "a"]),
        ("vllm serve a --x='{\"k\": 1}'", ["a", '--x={"k": 1}']),
        ("docker run --gpus all -e A=b -p 1:2 vllm/vllm-openai:v0.25.1 --model a", ["--model", "a"]),
        ("docker run --entrypoint bash -it vllm/vllm-openai:v0.25.1 -c 'vllm serve a'", ["a"]),
    ],
)
def test_shell_words(script: str, expected: list[str]) -> None:
    assert words(launch_in(f"#!/bin/sh\n{script}\n", "x.sh")) == expected


def test_shell_places() -> None:
    launch = launch_in("A=1\nexport MODEL=some/model\nvllm serve $MODEL \\\n   --block-size $A\n", "x.sh")
    assert places(launch) == [(2, 14), (4, 4), (1, 3)]
    assert launch.location == Location("x.sh", 3, 1)


@pytest.mark.parametrize(
    ("script", "unknown"),
    [
        ("vllm serve a --x $Y", "$Y"),
        ('vllm serve a --x "$(nproc)"', "$(nproc)"),
        ("if true; then Y=1; fi; vllm serve a --x $Y", "$Y"),
        ("false || Y=1; vllm serve a --x $Y", "$Y"),
        ("vllm serve a --x ${Y:?unset}", "${Y:?unset}"),
        ('vllm serve a "$@"', "$@"),
    ],
)
def test_what_only_a_run_could_tell_is_unknown(script: str, unknown: str) -> None:
    launch = launch_in(f"#!/bin/sh\n{script}\n", "x.sh")
    assert launch.words[-1].unknown[0][1] == unknown


def test_an_answer_makes_it_known() -> None:
    assert words(launch_in("#!/bin/sh\nvllm serve a --x $Y\n", "x.sh", Y="7")) == ["a", "--x", "7"]


@pytest.mark.parametrize(
    "script",
    ["echo vllm serve a", "grep 'vllm serve' log", "vllm bench serve --model a", "pip install vllm", "# vllm serve a"],
)
def test_no_launch(script: str) -> None:
    assert found_in(f"#!/bin/sh\n{script}\n", "x.sh").found == ()


def test_a_release_that_pip_installs() -> None:
    launch = launch_in("#!/bin/sh\npip install 'vllm[flashinfer]==0.24.0'\nvllm serve a\n", "x.sh")
    assert launch.around.release == "0.24.0"


def test_shell_text_in_yaml_keeps_its_places() -> None:
    text = (
        "spec:\n  containers:\n    - name: a\n      image: vllm/vllm-openai:v0.25.1\n      command: [bash, -lc]\n"
        "      args:\n        - |\n          set -e\n          vllm serve some/model \\\n            --block-size 32\n"
    )
    assert places(launch_in(text)) == [(9, 22), (10, 13), (10, 26)]
    folded = text.replace("- |\n          set -e\n", "- >-\n").replace(" \\\n  ", "\n")
    assert places(launch_in(folded)) == [(8, 22), (9, 11), (9, 24)]
    quoted = (
        'command: ["sh", "-c", "vllm serve some/model --x=\\"a b\\" --y"]\nimage: vllm/vllm-openai:v0.25.1\nname: a\n'
    )
    launch = launch_in(quoted)
    assert words(launch) == ["some/model", "--x=a b", "--y"]
    assert places(launch) == [(1, 35), (1, 46), (1, 58)]


def test_dockerfile_stages() -> None:
    fp8, own = launches_of("docker/Dockerfile")
    assert (fp8.around.name, fp8.around.release) == ("fp8", "0.30.0")
    assert words(fp8) == ["Qwen/Qwen3-32B", "--kv-cache-dtype", "fp8", "--swap-space", "4"]
    assert places(fp8)[0] == (11, 4)
    assert fp8.around.environment["VLLM_KV_CACHE_LAYOUT"].text == "NHD"
    assert (own.around.name, own.around.release) == ("own", "0.18.1")
    assert words(own) == ["meta-llama/Llama-3.1-8B", "--block-size", "32", "--kv-cache-dtype", "nvfp4"]


def test_compose_interpolation() -> None:
    glm, llama = launches_of("compose/compose.yaml")
    assert words(glm)[:6] == [
        "--model",
        "zai-org/GLM-5.2-FP8",
        "--tensor-parallel-size",
        "8",
        "--kv-cache-dtype",
        "fp8",
    ]
    assert (glm.around.release, glm.around.count) == ("0.25.1", 8)
    assert glm.around.environment["VLLM_ALLOW_LONG_MAX_MODEL_LEN"].text == "1"
    assert words(llama)[0] == "meta-llama/Llama-3.1-8B"
    assert llama.words[-1].unknown[0][1] == "${CONTEXT}"


def test_mounted_options_and_script() -> None:
    options, script = sorted(launches_of("kubernetes/mounted.yaml"), key=lambda one: one.around.name)
    assert words(options) == ["--config", "/etc/vllm/vllm.yaml"]
    assert "/etc/vllm/vllm.yaml" in options.around.files
    assert (script.around.name, script.around.release) == ("mounted/script", "0.33.0")
    assert script.location == Location("kubernetes/mounted.yaml", 16, 10)


def test_production_stack() -> None:
    glm, llama = launches_of("typed/production-stack.yaml")
    assert words(glm) == [
        "zai-org/GLM-5.2-FP8",
        "--enable-chunked-prefill",
        "--no-enable-prefix-caching",
        *("--max-model-len", "131072"),
        *("--dtype", "bfloat16"),
        *("--tensor-parallel-size", "8"),
        *("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers=0-3"),
    ]
    assert (glm.around.release, glm.around.count) == ("0.26.0", 8)
    assert llama.around.release is None
    assert "LMCacheConnectorV1" in words(llama)[-1]


def test_modelservice_roles() -> None:
    decode, prefill = launches_of("typed/modelservice.yaml")
    assert (decode.around.role, prefill.around.role) == ("decode", "prefill")
    assert words(decode)[:3] == ["meta-llama/Llama-3.1-8B", "--tensor-parallel-size", "4"]
    assert decode.around.gpu is not None
    assert (decode.around.gpu.name, decode.around.count) == ("h100", 4)


def test_kserve() -> None:
    qwen, llama, glm = launches_of("typed/kserve.yaml")
    assert words(qwen) == [
        "--model=Qwen/Qwen3-32B",
        "--served-model-name={{.Name}}",
        "--port=8080",
        "--max-model-len=50k",
    ]
    assert (qwen.around.release, qwen.around.count) == ("0.24.0", 2)
    assert llama.wrapper == "huggingfaceserver"
    assert words(glm) == [
        "zai-org/GLM-5.2-FP8",
        *("--tensor-parallel-size", "8"),
        *("--kv-cache-dtype", "fp8", "--no-enable-prefix-caching"),
    ]


def test_operators() -> None:
    found = {f"{one.around.kind} {one.around.name}": one for one in launches_of("typed/operators.yaml")}
    kubeai = found["KubeAI Model llama"]
    assert words(kubeai) == ["meta-llama/Llama-3.1-8B", "--max-model-len=16384", "--kv-cache-dtype=fp8"]
    assert kubeai.around.gpu is not None
    assert (kubeai.around.gpu.name, kubeai.around.count) == ("l4", 1)
    kaito = found["KAITO Workspace phi"]
    assert words(kaito) == [
        "llama-3.1-8b",
        "--tensor-parallel-size=4",
        *("--gpu-memory-utilization", "0.95"),
        *("--max-model-len", "65536"),
    ]
    dynamo = found["DynamoGraphDeployment disagg/VllmPrefillWorker"]
    assert (dynamo.wrapper, dynamo.around.role, dynamo.around.count) == ("dynamo.vllm", "prefill", 2)
    assert found["StormService aibrix/prefill"].around.role == "prefill"
    assert found["ClusterServingRuntime vllm-llama/ome-container"].words[0].text == "/raid/models/llama"


def test_ray_and_skypilot() -> None:
    (ray,) = launches_of("typed/rayservice.yaml")
    assert words(ray) == [
        "meta-llama/Llama-3.1-8B",
        "--tensor-parallel-size",
        "3",
        "--max-model-len",
        "8192",
        "--no-enforce-eager",
    ]
    assert ray.around.gpu is not None
    assert ray.around.gpu.name == "a10g"
    assert ray.words[2].location == Location("typed/rayservice.yaml", 16, 39)
    (sky,) = launches_of("tasks/sky.yaml")
    assert words(sky)[:5] == ["openai/gpt-oss-120b", "--tensor-parallel-size", "4", "--kv-cache-dtype", "fp8"]
    assert (sky.around.release, sky.around.count) == ("0.27.1", 4)


def test_recipe_is_variants_times_hardware() -> None:
    found = launches_of("typed/recipe.yaml")
    assert sorted(one.around.name for one in found) == [
        "default on b200",
        "default on h200",
        "packed on b200",
        "packed on h200",
    ]
    by_name = {one.around.name: words(one) for one in found}
    assert "FLASHMLA_SPARSE" in by_name["default on b200"]
    assert "FLASHMLA_SPARSE" not in by_name["default on h200"]
    assert "--max-model-len" not in by_name["default on h200"]


def test_systemd_unit() -> None:
    (unit,) = launches_of("units/vllm.service")
    assert words(unit) == ["meta-llama/Llama-3.1-8B", "--port", "8000", "--kv-cache-dtype", "fp8", "--block-size", "8"]
    assert unit.words[0].location == Location("units/vllm.service", 5, 20)
    assert unit.around.environment["VLLM_KV_CACHE_LAYOUT"].text == "NHD"


def test_python_engines() -> None:
    llm, args, asynchronous, command = launches_of("python/offline.py")
    assert words(llm)[:3] == ["meta-llama/Llama-3.1-8B", "--kv-cache-dtype=fp8", "--block-size=12"]
    assert "--enforce-eager" in words(llm)
    assert llm.words[1].location == Location("python/offline.py", 12, 22)
    assert args.words[-1].unknown[0][1] == "length"
    assert "--kv-cache-dtype-skip-layers" in words(asynchronous)
    assert words(command) == ["meta-llama/Llama-3.1-8B", "--kv-cache-dtype", "int3"]


def test_markdown_fences() -> None:
    shown, pod, placeholder = launches_of("docs/README.md")
    assert words(shown)[0] == "openai/gpt-oss-20b"
    assert shown.location == Location("docs/README.md", 6, 3)
    assert pod.words[-1].location == Location("docs/README.md", 22, 60)
    assert placeholder.words[0].unknown


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.25.1", "0.25.1"),
        ("docker.io/vllm/vllm-openai:v0.25.1-cu130@sha256:abc", "0.25.1"),
        ("registry:5000/team/vllm:0.33.0", "0.33.0"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.21-gpu-py312", "0.21"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai", None),
        ("lmcache/vllm-openai:v0.3.9", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.4.0", None),
    ],
)
def test_release_from_an_image(image: str, release: str | None) -> None:
    from kvplan.launch.sources.images import read

    assert read(image).release == release


@pytest.mark.parametrize(
    ("value", "gpu"),
    [
        ("nvidia-h100-80gb", "h100"),
        ("nvidia-h100-mega-80gb", "h100"),
        ("nvidia-tesla-t4", "t4"),
        ("NVIDIA-A100-SXM4-40GB", "a100-40"),
        ("p5en.48xlarge", "h200"),
        ("ml.g6e.12xlarge", "l40s"),
        ("a3-megagpu-8g", "h100"),
        ("Standard_ND96isr_H200_v5", "h200"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtxpro6000"),
        ("true", None),
        ("9.0", None),
    ],
)
def test_gpu_from_a_label(value: str, gpu: str | None) -> None:
    from kvplan.launch.sources.gpus import read

    found = read(value)
    assert (None if found is None else found.name) == gpu


def test_manifests_that_a_script_applies() -> None:
    text = (
        "#!/bin/sh\ncat <<EOF | kubectl apply -f -\napiVersion: kubeai.org/v1\nkind: Model\nmetadata:\n  name: m\n"
        "spec:\n  url: hf://org/name\n  engine: VLLM\n  args: [--max-model-len=$LENGTH]\nEOF\n"
    )
    launch = launch_in(text, "x.sh")
    assert words(launch) == ["org/name", "--max-model-len=$LENGTH"]
    assert places(launch) == [(8, 13), (10, 10)]
    assert launch.words[1].unknown == ((16, "$LENGTH"),)
    assert words(launch_in(text.replace("cat <<", "LENGTH=512\ncat <<"), "x.sh"))[1] == "--max-model-len=512"


@pytest.mark.parametrize("spelling", ["${TP}", "$(TP)", "{{ .Values.tp }}"])
def test_what_somebody_else_fills_in_is_unknown(spelling: str) -> None:
    text = f"name: a\nimage: vllm/vllm-openai:v0.25.1\nargs: [org/name, '-tp={spelling}']\n"
    assert launch_in(text).words[1].unknown == ((4, spelling),)


@pytest.mark.parametrize("first", ["serve", "vllm serve org/name --x"])
def test_words_that_the_entry_point_takes_for_the_model(first: str) -> None:
    (found,) = found_in(f"name: a\nimage: vllm/vllm-openai:v0.25.1\nargs: [{first}, org/name]\n").found
    assert isinstance(found, Unreadable)
    assert "entry point is `vllm serve`" in found.reason


@pytest.mark.parametrize(
    "command",
    ["[sleep, infinity]", "[python3, -c, 'import time']", "[python3, -m, dynamo.frontend]", "[sh, -c, 'ray start']"],
)
def test_containers_that_plainly_start_something_else(command: str) -> None:
    assert found_in(f"name: a\nimage: vllm/vllm-openai:v0.25.1\ncommand: {command}\n").found == ()


def test_docker_behind_another_program() -> None:
    launch = launch_in("#!/bin/sh\nsudo -E docker run vllm/vllm-openai:v0.25.1 --model a\n", "x.sh")
    assert (words(launch), launch.around.release) == (["--model", "a"], "0.25.1")


def test_slurm_directives() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=1 --time=1\n#SBATCH --gres=gpu:h100:4\n"
        "srun --container-image=vllm/vllm-openai:v0.25.1 vllm serve a\n"
    )
    around = launch_in(script, "x.sbatch").around
    assert around.gpu is not None
    assert (around.gpu.name, around.count, around.release) == ("h100", 4, "0.25.1")


def test_arguments_that_a_format_calls_the_command() -> None:
    launch = launch_in("name: v\nimage: vllm/vllm-openai:v0.25.1\ncommand: --model a --max-model-len 10\n")
    assert words(launch) == ["--model", "a", "--max-model-len", "10"]


def test_a_program_of_ones_own_in_a_vllm_image_is_named() -> None:
    (found,) = found_in("name: v\nimage: vllm/vllm-openai:v0.25.1\ncommand: [/app/server, --fast]\n").found
    assert isinstance(found, Unreadable)
    assert "/app/server" in found.reason


def test_library_code_is_no_launch() -> None:
    code = "from vllm import LLM\ndef make(model, size):\n    return LLM(model=model, tensor_parallel_size=size)\n"
    assert found_in(code, "x.py").found == ()


def test_commands_that_cannot_be_followed_are_named() -> None:
    reasons = [one.reason for one in manifest("kubernetes/not-followed.yaml") if isinstance(one, Unreadable)]
    assert reasons == ["Pod script/vllm: the command runs a script that is not at hand: /scripts/start.sh"]
