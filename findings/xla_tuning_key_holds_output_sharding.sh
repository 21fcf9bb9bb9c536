#!/usr/bin/env bash
# jax 0.12.0.1, its CUDA 13 plugin, no GPU. The entry below is what XLA wrote on an NVIDIA H100 80GB HBM3 when
# jax.jit compiled a bf16 matmul of 4096 x 4096 (2026-11-28).
#
# Guess: out_shardings that name the only device change nothing, so a tuning result that was measured
# under plain jax.jit is found with them too.
#
# Seen: it is found under plain jax.jit, and not with out_shardings=SingleDeviceSharding(device). The
# annotation stays on the instruction that makes the only result, and XLA's key of the instruction has
# it. A function with two results loses nothing: its last instruction is a tuple.
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
cat >results.txt <<'EOF'
entries {
  key {
    target {
      device: "699b92c0fb30cb16"
      hlo_fingerprint: "e41c5eb859d71ed12acf760c33314319"
    }
    environment {
      codegen_version: "b73fde93d4d04e40"
    }
  }
  value {
    optimal_config {
      backend: CUBLASLT_FISSION
      backend_config {
        gemm {
          algorithm: 1
          autotune_workspace_size: 33554432
        }
      }
    }
    optimal_backend_version: "13.0.0"
  }
}
EOF
cat >run.py <<'EOF'
import jax
import jax.numpy as jnp

import h100

where = h100.sharding()
x = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16, sharding=where)
options = {
    "xla_gpu_load_autotune_results_from": "results.txt",
    "xla_gpu_require_complete_aot_autotune_results": True,
}
jobs = {"plain jit": {}, "out_shardings": {"out_shardings": where}}
found = {}
for name, more in jobs.items():
    lowered = jax.jit(lambda a, b: a @ b, **more).trace(x, x).lower(lowering_platforms=("cuda",))
    try:
        lowered.compile(options)
        found[name] = "found"
    except Exception as err:
        found[name] = "missed" if "No cached config found" in str(err) else f"failed: {err}"
    print(f"{name}: {found[name]}")
raise SystemExit(found != {"plain jit": "found", "out_shardings": "missed"})
EOF
env/bin/python run.py
