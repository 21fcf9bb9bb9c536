"""The sizes of the model: SmolLM2-135M with a third of its width, for bytes in place of words.

All 30 layers are there: the time that a compiler takes follows the depth, hardly the width.
"""

LAYERS = 30
WIDTH = 192
HEADS = 3
KV_HEADS = 1
HEAD = 64
HIDDEN = 512
VOCAB = 256  # one token is one byte
CONTEXT = 256  # prompt and reply together
PROMPT = 64  # shorter prompts are padded to it
