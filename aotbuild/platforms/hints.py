"""What to do about errors of compilers that do not say it themselves."""

from __future__ import annotations

# What stands in an error, and the remedy.
_CUDA = {
    "cuDNN not found": (
        "This needs cuDNN also where it is compiled: add it to the toolchain, as in toolchains: "
        "[{jax: 0.10.2, packages: [nvidia-cudnn-cu13]}], or install it beside jax; or choose an "
        "implementation that XLA compiles itself."
    ),
    "Cannot lower pallas_call": (
        "jax's own rules for GPUs could not be imported: install absl-py into the build "
        "environment, and import jax.experimental.pallas at the top of the module."
    ),
    "Pass pipeline failed": (
        "A kernel of Pallas cannot be compiled for this GPU. The Mosaic GPU compiler, which some "
        "versions of jax take by default, needs capability 9.0 and up; for older GPUs give "
        "pallas_call compiler_params=jax.experimental.pallas.triton.CompilerParams()."
    ),
    "ptxas too old": (
        "The CUDA compiler does not know the capability of this GPU: correct its preset, or use a "
        "newer jax and nvidia-cuda-nvcc."
    ),
    "Version mismatch in autotune results": (
        "The file under autotune: was written by another jax; run aotbuild tune with this one."
    ),
    "Failed to parse autotune results": (
        "The file under autotune: is not what XLA writes; run aotbuild tune again."
    ),
    "No cached config found for HLO": (
        "The results under autotune: do not have all of it: they are of another jax, of another "
        "function, or of a GPU whose facts differ from the preset's. Run aotbuild tune again on "
        "the GPU, with the preset that aotbuild doctor --describe-gpu writes there."
    ),
}
_TPU = {
    "space=vmem": (
        "The kernel keeps more in the TPU's own memory (VMEM) than there is: give pallas_call a "
        "grid, and smaller blocks."
    ),
}
_NO_KERNELS = {
    "Only interpret mode is supported on CPU": (
        "Kernels of Pallas are not compiled for CPUs: leave out the target cpu, give those "
        "functions a manifest of their own, or call pallas_call with interpret=True there."
    ),
}
_BY_PLATFORM = {"cpu": _NO_KERNELS, "cuda": _CUDA, "portable": _NO_KERNELS, "tpu": _TPU}


def hint(platform: str, text: str) -> str:
    """Return what to do about the text of an error, on a line of its own, or nothing."""
    known = _BY_PLATFORM.get(platform, {}).items()
    return next((f"\n{remedy}" for sign, remedy in known if sign in text), "")
