"""PyTorch AOTInductor: a package of a compiled model, weights inside.

With `--loader public` by `torch._inductor.aoti_load_package`, as its documentation has it; with
`--loader private` by the C++ class under that, which spares the import of torch's compiler.
"""

from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import torch

run.mark("import torch")
path = str(Path(run.OPTIONS["--artifact"], "model.pt2"))
if run.OPTIONS["--loader"] == "public":
    from torch._inductor import aoti_load_package

    model = aoti_load_package(path)
else:
    package = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)

    def model(*inputs: Any) -> Any:
        """Run the package's only model."""
        return package.boxed_run(list(inputs))


run.mark("load")
inputs = [torch.from_numpy(array) for array in run.read_arrays("--inputs").values()]
run.mark("inputs")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    with torch.inference_mode():
        result = model(*inputs)
    return [np.asarray(x) for x in (result if isinstance(result, list | tuple) else [result])]


run.finish(call)
