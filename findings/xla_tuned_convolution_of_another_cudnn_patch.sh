#!/usr/bin/env bash
# jax 0.12.0.1, its CUDA 13 plugin, no GPU and no cuDNN. The entries below are what XLA wrote on an NVIDIA
# H100 80GB HBM3 with cuDNN 9.19.0 for three convolutions (2026-11-28); one of them is compiled.
#
# Guess: a result of cuDNN 9.19.0 is used for a target with 9.19.1, or the compilation says that it
# was not, because cuDNN's engines are stable within a minor version.
#
# Seen: the engine that was measured (41) is in the HLO with 9.19.0 in the target config. With 9.19.1
# the compilation succeeds without a word, and the convolution has engine -1, which no cuDNN runs.
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
      hlo_fingerprint: "05e81b6a133f29c2a23500892c83e418"
    }
    environment {
      codegen_version: "b73fde93d4d04e40"
    }
  }
  value {
    optimal_config {
      backend: CUDNN
      backend_config {
        algorithm {
          algo_id: 41
          tuning_knobs {
            key: 2
            value: 1
          }
          tuning_knobs {
            key: 13
            value: 1
          }
          tuning_knobs {
            key: 18
            value: 0
          }
          tuning_knobs {
            key: 25
            value: 1
          }
          tuning_knobs {
            key: 27
            value: 1
          }
          tuning_knobs {
            key: 28
            value: 1
          }
          workspace_size {
          }
        }
      }
    }
    optimal_backend_version: "9.19.0"
  }
}
entries {
  key {
    target {
      device: "699b92c0fb30cb16"
      hlo_fingerprint: "110974cc22ffedd8c372756d1122d1ca"
    }
    environment {
      codegen_version: "b73fde93d4d04e40"
    }
  }
  value {
    optimal_config {
      backend: CUDNN
      backend_config {
        algorithm {
          algo_id: 41
          tuning_knobs {
            key: 2
            value: 0
          }
          tuning_knobs {
            key: 13
            value: 1
          }
          tuning_knobs {
            key: 18
            value: 0
          }
          tuning_knobs {
            key: 25
            value: 0
          }
          tuning_knobs {
            key: 27
            value: 1
          }
          tuning_knobs {
            key: 28
            value: 1
          }
          workspace_size {
          }
        }
      }
    }
    optimal_backend_version: "9.19.0"
  }
}
entries {
  key {
    target {
      device: "699b92c0fb30cb16"
      hlo_fingerprint: "4ead5d1abcde8c2a1adb3f3d48bb91fe"
    }
    environment {
      codegen_version: "b73fde93d4d04e40"
    }
  }
  value {
    optimal_config {
      backend: CUDNN
      backend_config {
        algorithm {
          algo_id: 41
          tuning_knobs {
            key: 2
            value: 4
          }
          tuning_knobs {
            key: 13
            value: 1
          }
          tuning_knobs {
            key: 18
            value: 0
          }
          tuning_knobs {
            key: 25
            value: 0
          }
          tuning_knobs {
            key: 27
            value: 1
          }
          tuning_knobs {
            key: 28
            value: 2
          }
          workspace_size {
          }
        }
      }
    }
    optimal_backend_version: "9.19.0"
  }
}
EOF
cat >run.py <<'EOF'
import re
import sys

import jax
import jax.numpy as jnp

import h100

where = h100.sharding(cudnn=sys.argv[1])
x = jax.ShapeDtypeStruct((8, 64, 64, 64), jnp.bfloat16, sharding=where)
w = jax.ShapeDtypeStruct((3, 3, 64, 64), jnp.bfloat16, sharding=where)


def layer(x, w):
    sizes = ("NHWC", "HWIO", "NHWC")
    return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=sizes))


lowered = jax.jit(layer).trace(x, w).lower(lowering_platforms=("cuda",))
text = lowered.compile({"xla_gpu_load_autotune_results_from": "results.txt"}).as_text()
print(re.search('"algo_id":"(-?[0-9]+)"', text)[1])
EOF
same=$(env/bin/python run.py 9.19.0)
other=$(env/bin/python run.py 9.19.1)
echo "cuDNN 9.19.0: engine $same; 9.19.1: engine $other"
[ "$same $other" = "41 -1" ]
