import numpy as np

SEED = np.uint32([1, 2])
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)


def augment(augment):
    return [augment(SEED, IMAGES[:n]) for n in (1, 4)]


def degrade(degrade):
    return degrade(SEED, IMAGES[:2].astype(np.float32) / 255)
