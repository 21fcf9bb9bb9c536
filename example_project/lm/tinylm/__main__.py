"""Write a reply with the executables of this package.

python -m tinylm.weights weights.safetensors
python -m tinylm weights.safetensors "Once upon a time"
"""

import sys
from itertools import islice

import aotbuild

from tinylm.generate import generate
from tinylm.weights import load_params

LENGTH = 32


def main(weights: str, prompt: str) -> None:
    """Print the prompt and what follows it."""
    lib = aotbuild.load("tinylm", arrays="numpy")
    params = lib.place(load_params(weights))
    # The cache, result 1 of decode, stays where the next step writes into it.
    prefill, decode = lib.prefill.keeping(), lib.decode.keeping(1)
    reply = generate(prefill, decode, params, prompt.encode())
    tokens = bytes(int(scores.argmax()) for scores in islice(reply, LENGTH))
    print(prompt + tokens.decode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
