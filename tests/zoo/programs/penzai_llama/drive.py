import numpy as np
from penzai import pz
from pzllm.model import make_frozen


def logits(logits):
    model = make_frozen()
    ids = np.random.default_rng(0).integers(0, 64, (2, 8)).astype(np.int32)
    return [logits(model, pz.nx.wrap(ids[:n]).tag("batch", "seq")) for n in (1, 2)]
