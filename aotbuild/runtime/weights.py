"""Weights: arrays by name, in safetensors files or in a tree of arrays. Imports no jax."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import as_utf8
from aotbuild.format.files import move_whole, open_regular
from aotbuild.format.tensors import (
    DTYPES,
    METADATA,
    NEWER_DTYPES,
    Tensor,
    find_tensors,
    write_header,
)
from aotbuild.runtime.buffers import aligned
from aotbuild.runtime.source import reason_of

_SUFFIX = ".safetensors"
_EXPECTED = "a safetensors file"


def save_constants(path: str | os.PathLike[str], tree: Any, *, prefix: str = "") -> None:
    """Write a tree of arrays as a safetensors file that `Library.swap_constants` takes.

    The name of an array is its path in the tree, with dots: `{"nets.model.PARAMS": {"w": w}}` gives
    `nets.model.PARAMS.w`. The file is there whole or not at all. Links are followed, and a file
    that is replaced keeps its permissions.

    Args:
        path: The file.
        tree: dicts, lists, tuples and namedtuples of arrays. If jax is imported, all its pytrees.
        prefix: What all names begin with, as `nets.model.PARAMS`.

    Raises:
        AotbuildError: There are no arrays, two have one name, safetensors does not have a dtype or
            a name, an array is masked or has bools that are neither 0 nor 1, or the file cannot be
            written.

    Examples:
        >>> aotbuild.save_constants("new.safetensors", params, prefix="nets.model.PARAMS")
    """
    arrays = {name: _writable(name, leaf) for name, leaf in named_arrays(tree, prefix).items()}
    if not arrays:
        msg = f"save_constants: expected a tree of arrays, found {type(tree).__name__} without any"
        raise AotbuildError(msg)
    try:
        start, order = write_header({n: (_code(a.dtype), a.shape) for n, a in arrays.items()})
    except KeyError as err:
        msg = f"save_constants: safetensors has no dtype {err.args[0]!r}; convert the array first"
        raise AotbuildError(msg) from None
    try:
        # A link stays a link: others may lead to the same file.
        target = Path(os.path.realpath(path))
        mode = _mode_of(target)
        temporary = target.with_name(f".{target.name[:50]}.{os.urandom(8).hex()}")
        try:
            with temporary.open("xb") as file:
                if mode is not None:
                    temporary.chmod(mode)  # before anything that others may not read is in it
                file.write(start)
                for name in order:
                    file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
            move_whole(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as err:
        msg = f"{Path(path)}: cannot be written: {reason_of(err)}"
        raise AotbuildError(msg) from err


def _writable(name: str, leaf: Any) -> Any:
    """Return a leaf as an array; AotbuildError if a file could not say what it is."""
    problem, array = None, None
    if name == METADATA:
        problem = "safetensors keeps this name for itself"
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError) as err:  # a typed key, or one that was donated
        problem = f"{type(leaf).__name__}: {err}"
    problem = problem or masked(leaf) or odd_bools(array)
    if problem:
        msg = f"save_constants: {as_utf8(name)}: {problem}"
        raise AotbuildError(msg)
    return array


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file, None if there is none; OSError if it is no file."""
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return stat.S_IMODE(found) & 0o777


def masked(value: Any) -> str | None:
    """Return what is wrong with a masked array: `numpy.asarray` drops its mask without a word."""
    # Another thread may import it now: then the module has no classes yet.
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if kind is None or not isinstance(value, kind):
        return None
    return "a masked array, whose mask would be lost; pass its filled(…)"


def odd_bools(array: Any) -> str | None:
    """Return what is wrong with an array of bools with other bytes than 0 and 1."""
    if array.dtype != np.bool_ or np.ascontiguousarray(array).view(np.uint8).max(initial=0) <= 1:
        return None
    return "bools that are neither 0 nor 1; pass array.view('uint8') != 0"


def _code(dtype: Any) -> str:
    return f"{dtype.kind}{dtype.itemsize}" if dtype.isbuiltin == 1 else str(dtype)


def named_arrays(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a tree by their paths, with dots; AotbuildError if two are the same."""
    if not isinstance(prefix, str):
        msg = f"prefix: expected text, found {prefix!r}"
        raise AotbuildError(msg)
    found: dict[str, Any] = {}
    for path, leaf in _leaves(tree):
        name = ".".join([*([prefix] if prefix else []), *path])
        if not name:
            msg = "an array has no name; pass a tree, as {'nets.model.W': array}, or a prefix"
            raise AotbuildError(msg)
        if name in found:
            msg = f"two arrays have the name {name!r}; use keys without dots"
            raise AotbuildError(msg)
        found[name] = leaf
    return found


def _leaves(tree: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    jax: Any = sys.modules.get("jax")
    if jax is None:
        yield from _plain_leaves(tree)
        return
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        yield tuple(map(_key_text, path)), leaf


def _key_text(key: Any) -> str:
    """Return a key of jax's paths as text: of a dict, a sequence, an attribute, or an index."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _plain_leaves(tree: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        pairs = [(str(key), child) for key, child in tree.items()]
    elif isinstance(tree, (list, tuple)):
        names = getattr(tree, "_fields", range(len(tree)))
        pairs = [(str(name), child) for name, child in zip(names, tree, strict=True)]
    elif tree is None:
        return
    else:
        yield (), tree
        return
    for name, child in pairs:
        for path, leaf in _plain_leaves(child):
            yield (name, *path), leaf


def read_weights(path: str | os.PathLike[str], sha256: str | None = None) -> dict[str, Any]:
    """Return the tensors of a file, or of all `.safetensors` files of a folder, by name.

    Each is copied into aligned memory of its own. `sha256` is the digest that the file must have; a
    folder has none. AotbuildError if a file is not what it should be.
    """
    place = Path(path)
    if not place.is_dir():
        return _read_file(place, sha256)
    if sha256 is not None:
        raise _bad(place, "a file, which can have the SHA-256 that is demanded", "a folder")
    files = sorted(place.glob(f"*{_SUFFIX}"))
    if not files:
        raise _bad(place, f"files *{_SUFFIX}", "a folder without them")
    found: dict[str, Any] = {}
    for file in files:
        for name, array in _read_file(file, None).items():
            if name in found:
                raise _bad(file, "each tensor in one file of the folder", f"{name} again")
            found[name] = array
    return found


def _read_file(path: Path, digest: str | None) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            return _read_tensors(path, file, digest)
    except OSError as err:
        raise _bad(path, _EXPECTED, reason_of(err)) from err
    except ValueError as err:
        raise _bad(path, _EXPECTED, str(err)) from err


def _read_tensors(path: Path, file: IO[bytes], digest: str | None) -> dict[str, Any]:
    # The tensors fill the file in order, so these are all of its bytes, each read once.
    parts: list[Any] = []

    def read(begin: int, end: int) -> bytes:
        file.seek(begin)
        parts.append(file.read(end - begin))
        return bytes(parts[-1])

    size = os.fstat(file.fileno()).st_size
    tensors = find_tensors(read, size, {**DTYPES, **NEWER_DTYPES})
    found = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].begin):
        parts.append(read_tensor(path, file, tensor))
        if tensor.dtype == "b1":
            check_bools(name, parts[-1])
        found[name] = parts[-1].view(dtype_named(tensor.dtype)).reshape(tensor.shape)
    if digest is not None:
        _check_digest(path, parts, digest)
    return found


def check_bools(name: str, data: Any) -> None:
    """Raise ValueError for a tensor of BOOL with other bytes than 0 and 1.

    Programs disagree on what these are. `data` are its bytes, as an array of uint8.
    """
    if data.max(initial=0) > 1:
        msg = f"{name}: a BOOL that is neither 0 nor 1"
        raise ValueError(msg)


def read_tensor(path: Path, file: IO[bytes], tensor: Tensor) -> Any:
    """Return a tensor's bytes, read-only and aligned; AotbuildError if the file is too short."""
    buffer = aligned(tensor.end - tensor.begin)
    file.seek(tensor.begin)
    count = file.readinto(buffer.data) if buffer.size else 0  # type: ignore[attr-defined]
    if count != buffer.size:
        raise _bad(path, f"{buffer.size} bytes of a tensor", f"{count}: the file became shorter")
    buffer.flags.writeable = False
    return buffer


def dtype_named(name: str) -> Any:
    """Return a dtype of numpy or of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - registers the names of its types with numpy

        return np.dtype(name)


def _check_digest(path: Path, parts: list[Any], expected: str) -> None:
    from hashlib import sha256

    digest = sha256()
    for part in parts:
        digest.update(part)
    if digest.hexdigest() != expected.removeprefix("sha256:").lower():
        raise _bad(path, f"the SHA-256 {expected}", digest.hexdigest())


def _bad(path: Path, expected: str, found: str) -> AotbuildError:
    msg = f"{path}\n  expected {expected}\n  found    {found}\nWrite or download it again."
    return AotbuildError(as_utf8(msg))
