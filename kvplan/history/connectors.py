"""History entries about connectors that move the KV cache elsewhere."""

from kvplan.releases import Behaviour

CONNECTOR_DISABLES_HYBRID_MANAGER = Behaviour(
    "CONNECTOR_DISABLES_HYBRID_MANAGER",
    "any --kv-transfer-config switches the hybrid KV cache manager off; later, only one whose connector does not "
    "support it, --kv-offloading-size included",
    until="0.21.0",
    reference="vllm#41847",
    where="config/vllm.py",
)
EMPTY_MULTI_WORKS_WITH_HYBRID = Behaviour(
    "EMPTY_MULTI_WORKS_WITH_HYBRID",
    "a MultiConnector that lists no connectors leaves the hybrid KV cache manager on",
    since="0.22.1",
    until="0.22.1",
    where="config/vllm.py",
)
SIMPLE_OFFLOADING = Behaviour(
    "SIMPLE_OFFLOADING",
    "VLLM_USE_SIMPLE_KV_OFFLOAD=1 makes --kv-offloading-size use the SimpleCPUOffloadConnector",
    since="0.19.1",
    reference="vllm#37160",
    where="config/vllm.py",
)
NIXL_SHARDS_WHOLLY = Behaviour(
    "NIXL_SHARDS_WHOLLY",
    "with the NixlConnector, decode context parallelism is off or spans all tensor-parallel ranks, of MLA models only",
    since="0.29.0",
    where="config/vllm.py",
)
NIXL_WITHOUT_PREFILL_RANKS = Behaviour(
    "NIXL_WITHOUT_PREFILL_RANKS",
    "the NixlConnector refuses prefill context parallelism, and context parallelism of hybrid models",
    since="0.29.0",
    until="0.29.0",
    where="config/vllm.py",
)
CONNECTOR_ASKED_ABOUT_GRAPHS = Behaviour(
    "CONNECTOR_ASKED_ABOUT_GRAPHS",
    "the connector's class is looked up with the config, for what it asks of CUDA graphs; before, once the cache is "
    "laid out",
    since="0.17.1",
    reference="vllm#31057",
    where="config/vllm.py",
)
MULTI_ASKED_FOR_CHILDREN = Behaviour(
    "MULTI_ASKED_FOR_CHILDREN",
    "a MultiConnector works with the hybrid KV cache manager if every connector that it holds does; before, always",
    since="0.23.0",
    where="distributed/kv_transfer/kv_connector/factory.py",
)
TRANSFERS_KERNEL_BLOCKS = Behaviour(
    "TRANSFERS_KERNEL_BLOCKS",
    "the NIXL connector, and later Mooncake's, transfer blocks of a size that all attention kernels address",
    since="0.18.1",
    where="distributed/kv_transfer/kv_connector/v1",
)
SMALLEST_BLOCK_OF_SHARED_PREFIXES = Behaviour(
    "SMALLEST_BLOCK_OF_SHARED_PREFIXES",
    "the block size that the engine core writes down is the smallest of the groups whose prefixes are shared; before, "
    "of all groups",
    since="0.30.0",
    where="v1/engine/core.py",
)
