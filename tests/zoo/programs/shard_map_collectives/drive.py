import jax
import numpy as np
from collectives import ops
from jax.sharding import NamedSharding, PartitionSpec

rng = np.random.default_rng(0)


def placed(shape, *axes, dtype=np.float32):
    array = rng.normal(size=shape).astype(dtype)
    return jax.device_put(array, NamedSharding(ops.MESH, PartitionSpec(*axes)))


def fft2(fft2):
    return fft2(placed((8, 8), "x", dtype=np.complex64))


def pipeline(pipeline):
    return pipeline(placed((4, 8, 8), "x"), placed((6, 2, 8)))


def ring_attention(attend):
    return attend(*(placed((2, 16, 2, 8), None, "x") for _ in range(3)))


def experts(experts):
    return experts(placed((16, 8), "x"), placed((4, 8, 8), "x"), placed((8, 4)))


def fsdp_step(step):
    split = NamedSharding(ops.MESH, PartitionSpec("x"))
    params, losses = jax.device_put(ops.make_params(), split), []
    for _ in range(3):
        params, loss = step(params, placed((16, 8), "x"), placed((16, 8), "x"))
        losses.append(loss)
    return params, losses
