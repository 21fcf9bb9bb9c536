"""Classify the held-out images with the executables of this package: `python -m digits`."""

import aotbuild
import numpy as np

from digits.data import batches, load_heldout, load_params

BATCH = 32  # one of the batch sizes in aot.yaml


def main() -> None:
    """Print how many of the held-out images are recognized."""
    lib = aotbuild.load("digits")
    params = load_params()
    images, labels = load_heldout()
    guesses = [
        np.asarray(lib.predict(params, batch))[:count].argmax(axis=1)
        for batch, count in batches(images, BATCH)
    ]
    right = int((np.concatenate(guesses) == labels).sum())
    print(f"{right} of {len(labels)} held-out digits recognized: {right / len(labels):.1%}")


if __name__ == "__main__":
    main()
