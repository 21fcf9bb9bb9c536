#!/usr/bin/env bash
# jax 0.12.0.1, its CUDA 13 plugin, no GPU.
#
# Guess: XLA ships a table of CUB's scratch sizes and an option, xla_gpu_deviceless_cub_mode, for builds
# without a GPU. So with the table's CUB version in the target config, a sort compiles to CUB's.
#
# Seen: with that version the table is hit, and the compilation ends with "cudaErrorInvalidDevice". With
# DEVICELESS_CUB_WITH_FALLBACK it ends so too, and does not fall back. Without the version the
# lookup fails for "cub_version=0.0.0", which is what a config without one says. The default compiles
# XLA's own sort. jax 0.10.2 does the same.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1 jax-cuda13-plugin==0.12.0.1 \
    jax-cuda13-pjrt==0.12.0.1 nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37
ln -s "$(env/bin/python -c "import nvidia.cu13 as m; print(list(m.__path__)[0])")" cuda
cat >h100.py <<'EOF'
"""An H100 that is not here, as XLA is told of it."""
import jax
from jax.experimental import topologies


def sharding(cudnn="9.19.0", cub=None):
    facts = dict(
        core_count=132, fpus_per_core=128, clock_rate_ghz=1.98, memory_bandwidth=3352320000000,
        device_memory_size=84942979072, l2_cache_size=52428800, shared_memory_per_core=233472,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
        registers_per_core_limit=65536, registers_per_block_limit=65536,
        threads_per_core_limit=2048, threads_per_block_limit=1024, threads_per_warp=32,
        block_dim_limit_x=2147483647, block_dim_limit_y=65535, block_dim_limit_z=65535,
        driver_version="\"13.0.0\"", runtime_version="\"13.0.0\"", dnn_version=f"\"{cudnn}\"",
        **({"cub_version": f"\"{cub}\""} if cub else {}),
    )
    text = " ".join(f"{name}: {value}" for name, value in facts.items())
    capability = "{ major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }"
    config = (
        f"gpu_device_info {{ {text} cuda_compute_capability {capability} }} "
        "platform_name: \"CUDA\" device_description_str: \"NVIDIA H100 80GB HBM3\""
    )
    topology = topologies.get_topology_desc(
        platform="cuda", topology="1x1x1", target_config=config
    )
    return jax.sharding.SingleDeviceSharding(topology.devices[0])
EOF
export JAX_PLATFORMS=cpu CUDA_ROOT=./cuda TF_CPP_MIN_LOG_LEVEL=3
cat >run.py <<'EOF'
import jax
import jax.numpy as jnp

import h100


def sort(cub, mode):
    where = h100.sharding(cub=cub)
    x = jax.ShapeDtypeStruct((1 << 20,), jnp.float32, sharding=where)
    options = {"xla_gpu_deviceless_cub_mode": f"DEVICELESS_CUB_{mode}"} if mode else {}
    try:
        lowered = jax.jit(jnp.sort).trace(x).lower(lowering_platforms=("cuda",))
        text = lowered.compile(options).as_text()
        return "CUB's sort" if "cub_sort" in text else "XLA's own sort"
    except Exception as err:
        signs = ("cudaErrorInvalidDevice", "Missing deviceless CUB scratch size data")
        return next((sign for sign in signs if sign in str(err)), f"failed: {err}")


found = []
for cub, mode in ((None, None), (None, "NO_FALLBACK"), ("3.1.2", "NO_FALLBACK"), ("3.1.2", "WITH_FALLBACK")):
    found.append(sort(cub, mode))
    print(f"cub_version {cub}, mode {mode}: {found[-1]}")
invalid = "cudaErrorInvalidDevice"
raise SystemExit(
    found != ["XLA's own sort", "Missing deviceless CUB scratch size data", invalid, invalid]
)
EOF
env/bin/python run.py
