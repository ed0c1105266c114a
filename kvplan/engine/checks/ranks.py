"""How data-parallel ranks, nodes, the balancing of experts and microbatches may be combined.

Sources: `EngineArgs.create_engine_config` (engine/arg_utils.py), `ParallelConfig` (config/parallel.py) and
`VllmConfig.__post_init__` (config/vllm.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.failures import RanksRefused
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.history import parallel as history
from kvplan.launch.values import Launch

EXTERNAL = "--data-parallel-external-lb"
HYBRID = "--data-parallel-hybrid-lb"
LOCAL = "--data-parallel-size-local"
RANK = "--data-parallel-rank"
NODES = "--nnodes"
BALANCER = "--enable-eplb"
ELASTIC = "--enable-elastic-ep"
MICROBATCHES = "--enable-dbo"

_MICROBATCHED = ("deepep_low_latency", "deepep_high_throughput")
_ON_ONE_NODE_OR_MORE = (None, "mp", "uni", "external_launcher")


def check_launch(launch: Launch, *, is_moe: bool) -> None:
    """Raises StartupStops where the options do not tell this process which data-parallel ranks are its own."""
    told = launch.release.has(history.RANK_REFUSALS_HAVE_TEXTS)
    hybrid, external = given.flag(launch, "data_parallel_hybrid_lb"), given.flag(launch, "data_parallel_external_lb")
    if hybrid and external:
        raise _launch(
            told,
            HYBRID,
            "`--data-parallel-hybrid-lb` and `--data-parallel-external-lb` cannot be enabled together. Enable only "
            "one load-balancing mode.",
            "data_parallel_hybrid_lb and data_parallel_external_lb cannot both be True.",
        )
    rank, local = launch.get("data_parallel_rank"), launch.get("data_parallel_size_local")
    if given.number(launch, "nnodes") > 1:
        rank, local = _nodes(launch, told, rank, local)
    external = external or rank is not None
    if given.flag(launch, "enable_fault_tolerance") and not external:
        raise _refused(
            "Fault tolerance requires external load balancer mode (--data-parallel-external-lb or "
            "--data-parallel-rank). Internal LB mode is not supported.",
            "--enable-fault-tolerance",
            "ValueError",
        )
    refused = launch.release.has(history.EXTERNAL_RANKS_NEED_EXPERTS)
    if refused and external and not is_moe and given.number(launch, "data_parallel_size") > 1:
        raise _refused(
            "Non-MoE models do not support external data parallel mode. For external load balancing, launch "
            "independent vLLM instances without --data-parallel-* arguments.",
            EXTERNAL if launch.get("data_parallel_external_lb") else RANK,
            "ValueError",
        )
    if external:
        _external(told, rank, local)
    elif hybrid and local is None:
        raise _launch(
            told,
            HYBRID,
            "`--data-parallel-hybrid-lb` requires `--data-parallel-size-local`. Set it to the number of data-parallel "
            "ranks on this node.",
            "data_parallel_size_local must be set to use data_parallel_hybrid_lb.",
        )


def check_data_parallel_backend(launch: Launch) -> None:
    """Raises StartupStops for a backend that data-parallel ranks cannot have; an address of its own is not held."""
    backend = given.value(launch, "data_parallel_backend")
    if launch.get("data_parallel_address") is None and backend not in (None, "mp", "ray"):
        raise _refused(
            f"('data_parallel_backend can only be ray or mp, got %s', {backend!r})",
            "--data-parallel-backend",
            "AssertionError",
            ("mp", "ray"),
        )


def check_workers(launch: Launch) -> None:
    """Raises StartupStops for what the parallel config holds last: profiling, and thresholds of microbatches."""
    if given.flag(launch, "ray_workers_use_nsight") and launch.get("distributed_executor_backend") != "ray":
        raise _refused("Unable to use nsight profiling unless workers run with Ray.", "--ray-workers-use-nsight")
    batches = max(given.number(launch, "ubatch_size"), 2 if given.flag(launch, "enable_dbo") else 1)
    if batches < 2 or not launch.release.has(checks.MICROBATCHES_HAVE_TOKENS):
        return
    names = ("dbo_decode_token_threshold", "dbo_prefill_token_threshold")
    if min(given.number(launch, name) for name in names) < batches:
        raise _refused(
            "dbo_decode_token_threshold and dbo_prefill_token_threshold must be at least the number of microbatches "
            f"({batches}).",
            "--dbo-decode-token-threshold",
        )


def _nodes(launch: Launch, told: bool, rank: int | None, local: int | None) -> tuple[int | None, int | None]:
    """The rank and the local size that several nodes imply."""
    nodes, node = given.number(launch, "nnodes"), int(given.value(launch, "node_rank") or 0)
    backend = given.value(launch, "data_parallel_backend")
    if backend != "mp":
        raise _launch(
            told,
            NODES,
            f"`--nnodes {nodes}` requires `--data-parallel-backend mp`; got `--data-parallel-backend {backend}`. Use "
            "the MP backend or set `--nnodes 1`.",
            "nnodes > 1 is only supported with data_parallel_backend=mp",
        )
    replica = given.number(launch, "pipeline_parallel_size") * given.number(launch, "tensor_parallel_size")
    if launch.release.has(history.NODES_COUNT_PREFILL_RANKS):
        replica *= given.number(launch, "prefill_context_parallel_size")
    data = given.number(launch, "data_parallel_size")
    world = data * replica
    if world % nodes:
        raise _launch(
            told,
            NODES,
            f"`--nnodes {nodes}` must evenly divide the total world size ({world}).",
            f"world_size={world} must be divisible by nnodes={nodes}.",
        )
    if node >= nodes:
        raise _launch(
            told,
            "--node-rank",
            f"`--node-rank` must be between 0 and {nodes - 1}; got `--node-rank {node}`. Set it to this node's "
            "zero-based index.",
            f"node_rank={node} must be less than nnodes={nodes}.",
        )
    if data > 1 and given.flag(launch, "data_parallel_external_lb"):
        ambiguous = launch.release.has(history.NODES_MUST_TELL_RANKS)
        if rank is None and nodes % data and ambiguous:
            raise _launch(
                told,
                RANK,
                "`--node-rank` cannot unambiguously identify external data-parallel ranks when `--nnodes` is not "
                "divisible by `--data-parallel-size`. Set a unique `--data-parallel-rank` for each external-LB "
                "process.",
                "",
            )
        kept = rank if ambiguous and rank is not None else node * (world // nodes) // replica
        return kept, local
    return rank, max(world // nodes // replica, 1) if local is None else local


def _external(told: bool, rank: int | None, local: int | None) -> None:
    if rank is None:
        raise _launch(
            told,
            EXTERNAL,
            "`--data-parallel-external-lb` requires a data-parallel rank. Set `--data-parallel-rank`, or set "
            "`--data-parallel-size` greater than 1 and use `--nnodes` with `--node-rank` so the rank can be inferred.",
            "data_parallel_rank or node_rank must be specified if data_parallel_external_lb is enable.",
        )
    if local not in (1, None):
        raise _launch(
            told,
            LOCAL,
            f"an external data-parallel rank requires `--data-parallel-size-local 1`; got {local}. Set it to 1 or "
            "omit it.",
            "data_parallel_size_local must be 1 or None when data_parallel_rank is set",
        )


def check_parallel(launch: Launch) -> None:
    """Raises StartupStops where the parallel config refuses itself."""
    _check_elastic(launch)
    data = given.number(launch, "data_parallel_size")
    rank, local = launch.get("data_parallel_rank"), launch.get("data_parallel_size_local")
    if data > 1 and rank is not None and not 0 <= rank < data:
        raise _refused(f"data_parallel_rank ({rank}) must be in the range [0, {data})", RANK)
    executor = launch.get("distributed_executor_backend")
    if given.number(launch, "nnodes") > 1 and executor not in _ON_ONE_NODE_OR_MORE:
        raise _refused(
            "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher.", NODES
        )
    if local is not None and rank is None and local > data:
        raise _refused(f"data_parallel_size_local ({local}) must be <= data_parallel_size ({data})", LOCAL)
    if data <= 1 and (rank is not None or given.flag(launch, "data_parallel_external_lb")):
        raise _refused("data_parallel_external_lb can only be set when data_parallel_size > 1", EXTERNAL)
    _check_memory_nodes(launch)
    _check_balancer(launch)


def _check_memory_nodes(launch: Launch) -> None:
    for name in ("numa_bind_nodes", "numa_bind_cpus"):
        if launch.get(name) is not None and not given.flag(launch, "numa_bind"):
            raise _refused("numa_bind_nodes and numa_bind_cpus require numa_bind=True.", "--" + name.replace("_", "-"))


def _check_elastic(launch: Launch) -> None:
    if not given.flag(launch, "enable_elastic_ep"):
        return
    stages = given.number(launch, "pipeline_parallel_size")
    if not given.flag(launch, "enable_eplb"):
        raise _refused("Elastic EP is only supported with enable_eplb=True.", ELASTIC)
    if stages > 1:
        raise _refused(
            f"Elastic EP is not supported with pipeline parallelism (pipeline_parallel_size={stages}).", ELASTIC
        )
    if given.flag(launch, "data_parallel_hybrid_lb") and launch.release.has(history.ELASTIC_EXCLUDES_HYBRID_BALANCING):
        raise _refused(
            "Elastic EP is not compatible with data_parallel_hybrid_lb. Elastic EP supports a single API server/core "
            "client path or data_parallel_external_lb, but not hybrid load balancing.",
            ELASTIC,
            "NotImplementedError",
        )


def _check_balancer(launch: Launch) -> None:
    tensor, data = given.number(launch, "tensor_parallel_size"), given.number(launch, "data_parallel_size")
    if not given.flag(launch, "enable_eplb"):
        config = launch.get("eplb_config")
        spare = config.get("num_redundant_experts", 0) if isinstance(config, Mapping) else 0
        if spare:
            raise _refused(
                f"num_redundant_experts is set to {spare} but EPLB is not enabled. Either enable EPLB or unset "
                "num_redundant_experts.",
                "--eplb-config",
            )
        return
    if not given.flag(launch, "enable_expert_parallel"):
        raise _refused("enable_expert_parallel must be True to use EPLB.", BALANCER)
    if launch.release.has(history.BALANCER_COUNTS_PREFILL_RANKS):
        prefill = given.number(launch, "prefill_context_parallel_size")
        if tensor * prefill * data <= 1:
            raise _refused(
                "EPLB requires tensor, prefill-context, or data parallelism, but got "
                f"TP={tensor}, PCP={prefill}, DP={data}.",
                BALANCER,
            )
    elif tensor * data <= 1:
        raise _refused(
            "EPLB requires tensor_parallel_size or data_parallel_size to be greater than 1, but got "
            f"TP={tensor},DP={data}.",
            BALANCER,
        )


def check_microbatches(launch: Launch) -> None:
    """Raises StartupStops where a batch is to be cut in two and the experts' exchange cannot follow."""
    if not given.flag(launch, "enable_dbo") and not given.number(launch, "ubatch_size") > 1:
        return
    used = given.value(launch, "all2all_backend")
    able = (*_MICROBATCHED, *(("nixl_ep",) if launch.release.has(history.NIXL_EP_TAKES_MICROBATCHES) else ()))
    if used in able:
        return
    option = MICROBATCHES if given.flag(launch, "enable_dbo") else "--ubatch-size"
    raise _refused(
        f"Microbatching currently only supports the {', '.join(able)} all2all backends. {used} is not supported. To "
        f"fix use one of {', '.join('--all2all-backend=' + name for name in able)} and install the matching kernels.",
        option,
        accepted=able,
    )


def _launch(told: bool, option: str, text: str, assertion: str) -> StartupStops:
    """The refusal of create_engine_config: a ValueError that names options, before a plain assertion."""
    if told:
        return _refused(f"Invalid data-parallel launch options: {text}", option, "ValueError")
    return _refused(assertion, option, "AssertionError")


def _refused(
    message: str, option: str, exception: str = "ValidationError", accepted: tuple[str, ...] = ()
) -> StartupStops:
    return stop(Stage.OPTIONS, RanksRefused(option=option, accepted=accepted), message, exception=exception)
