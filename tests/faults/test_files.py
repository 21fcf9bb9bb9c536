"""Files that are pipes, devices or folders, and files and members of absurd sizes: refused."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faults import lies
from faults.ended import LIMIT, assert_done, assert_refused
from support.cli import invoke

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.spec.archives import MOST_DIRECTORY, MOST_METADATA, RegularZip
from aotbuild.spec.files import MOST_TEXT, open_regular, read_regular
from aotbuild.spec.index import MOST_INDEX
from aotbuild.spec.layout import BESIDE, HEADER_KEY, stages_path

WHEEL = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
MANIFEST = (
    "version: 1\npackage: demo\nfunctions:\n  f:\n    call: demo:f\n    args: [{x: 'f32[4]'}]\n"
)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise AssertionError in what waits for ever, as for the writer of a pipe."""

    def stop(*_: object) -> None:
        msg = "hangs"
        raise AssertionError(msg)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT // 4)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fifo(place: Path) -> None:
    os.mkfifo(place)


def linked_fifo(place: Path) -> None:
    os.mkfifo(place.with_name("pipe"))
    place.symlink_to("pipe")


def folder(place: Path) -> None:
    place.mkdir()


def zeros(place: Path) -> None:
    place.symlink_to("/dev/zero")


def nothing(place: Path) -> None:
    place.symlink_to("/dev/null")


def terminal(place: Path) -> None:
    place.symlink_to("/dev/ptmx")


def listener(place: Path) -> None:
    # The path of a socket has 107 characters at most.
    before = Path.cwd()
    os.chdir(place.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(before)


def endless(place: Path) -> None:
    place.symlink_to(place.name)


def nowhere(place: Path) -> None:
    place.symlink_to("missing")


SPECIAL = (fifo, linked_fifo, folder, zeros, nothing, terminal, listener, endless)
special = pytest.mark.parametrize("make", SPECIAL, ids=lambda make: make.__name__)

waiting = pytest.mark.parametrize("make", [fifo, zeros], ids=lambda make: make.__name__)
OF_WHEELS: tuple[tuple[str, ...], ...] = (
    ("inspect", "{}", "--json"),
    ("diff", "{}", "{}"),
    ("verify", "{}", "--no-run"),
    ("verify", "{}"),
    ("sbom", "{}"),
    ("stubs", "{}"),
    ("bench", "{}"),
    ("split", "{}", "--out", "out"),
    ("merge", "{}", "{}", "--out", "out"),
    ("release-check", "{}"),
    ("export-cache", "out", "{}"),
    ("coverage", "calls.json", "{}"),
    ("weights", "w.safetensors", "--like", "{}", "--version", "2", "--out", "out"),
)
OF_MANIFESTS: tuple[tuple[str, ...], ...] = (
    ("plan",),
    ("plan", "--explain"),
    ("lock",),
    ("lock", "--check"),
    ("build",),
    ("build", "--check"),
    ("init",),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.cause(16)
@special
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_load_of_a_wheel(make: Callable[[Path], None], arrays: str, tmp_path: Path) -> None:
    make(tmp_path / WHEEL)
    with no_hang(), pytest.raises(AotbuildError):
        aotbuild.load(tmp_path / WHEEL, arrays=arrays)


@pytest.mark.cause(16)
@special
def test_inspect_of_a_wheel(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / WHEEL)
    with no_hang():
        assert_refused(invoke("inspect", WHEEL), WHEEL)


@pytest.mark.cause(16)
@waiting
@pytest.mark.parametrize("words", OF_WHEELS, ids=" ".join)
def test_in_the_place_of_a_wheel(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / WHEEL)
    (tmp_path / "calls.json").write_text('{"calls": {}}')
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    with no_hang():
        ended = invoke(*(word.format(WHEEL) for word in words))
    # `split` and `weights` say that it is no file, as of a path that is not there.
    assert_refused(ended)
    assert "unrecognized" not in ended.output
    assert "required" not in ended.output


@pytest.mark.cause(16)
@special
def test_a_source_distribution(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "demo-1.0.tar.gz")
    with no_hang():
        assert_refused(invoke("release-check", "demo-1.0.tar.gz"))


@pytest.mark.cause(16)
@waiting
def test_a_wheel_to_sign(make: Callable[[Path], None], tmp_path: Path) -> None:
    assert_done(invoke("keygen", "key.pem"))
    make(tmp_path / WHEEL)
    with no_hang():
        assert_refused(invoke("sign", WHEEL, "--key", "key.pem"), codes=range(3, 16))


@pytest.mark.cause(16)
@pytest.mark.parametrize("make", SPECIAL[:4], ids=lambda make: make.__name__)
@pytest.mark.parametrize("words", OF_MANIFESTS, ids=" ".join)
def test_in_the_place_of_a_manifest(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "calls.jsonl").write_text('{"kind":"recording","version":1}\n')
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'demo'\nversion = '1'\n")
    make(tmp_path / "aot.yaml")
    with no_hang():
        assert_refused(invoke(*words))


@pytest.mark.cause(16)
@waiting
@pytest.mark.parametrize("name", ["pyproject.toml", "trees.json", "gpu", "autotune"])
def test_a_file_that_a_manifest_names(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def f(x):\n    return x\n")
    text = {
        "trees.json": MANIFEST.replace("'f32[4]'", "{file: trees.json, name: a}"),
        "gpu": MANIFEST + "targets: [{cuda: {gpu: [./gpu]}}]\n",
        "autotune": MANIFEST + "targets: [{cuda: {gpu: [h100-sxm], autotune: ./autotune}}]\n",
    }.get(name, MANIFEST)
    (tmp_path / "aot.yaml").write_text(text)
    make(tmp_path / name)
    with no_hang():
        assert_refused(invoke("plan"), name)


OF_FOLDERS: tuple[tuple[str, ...], ...] = (
    ("inspect", "_aot"),
    ("verify", "_aot", "--no-run"),
    ("stubs", "_aot"),
    ("diff", "_aot", "_aot"),
)


@pytest.mark.cause(16)
@special
@pytest.mark.parametrize("words", OF_FOLDERS, ids=" ".join)
def test_in_the_place_of_an_index(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "_aot").mkdir()
    make(tmp_path / "_aot/index")
    with no_hang():
        assert_refused(invoke(*words))


@pytest.mark.cause(16)
@special
def test_in_the_place_of_a_blob(make: Callable[[Path], None], tmp_path: Path, honest: Path) -> None:
    shutil.copytree(honest, tmp_path / "_aot")
    blob = min((tmp_path / "_aot/blobs").iterdir())
    blob.unlink()
    make(blob)
    with no_hang():
        library = aotbuild.load(tmp_path / "_aot", arrays="numpy")
        with pytest.raises(AotbuildError):
            library.preload(require=True)
        assert_refused(invoke("verify", "_aot", "--no-run"))


@pytest.mark.cause(16)
@special
def test_in_the_place_of_a_key(make: Callable[[Path], None], tmp_path: Path, honest: Path) -> None:
    make(tmp_path / "key.pem")
    with no_hang(), pytest.raises(AotbuildError):
        aotbuild.load(honest, trust=["key.pem"])
    shutil.copytree(honest, tmp_path / "_aot")
    with no_hang():
        assert_refused(invoke("sign", "_aot", "--key", "key.pem"))
        assert_refused(invoke("verify", "_aot", "--no-run", "--trust", "key.pem"))


@pytest.mark.cause(16)
@pytest.mark.parametrize("make", [fifo, linked_fifo, zeros, nothing, listener])
def test_a_key_that_is_no_file_is_not_said_to_be_missing(
    make: Callable[[Path], None], tmp_path: Path, honest: Path
) -> None:
    make(tmp_path / "key.pem")
    ended = invoke("verify", honest, "--no-run", "--trust", "key.pem")
    assert_refused(ended, "key.pem is neither a file nor a folder; expected a file", codes=[2])


@pytest.mark.cause(16)
@special
def test_in_the_place_of_a_signature(
    make: Callable[[Path], None], tmp_path: Path, honest: Path
) -> None:
    assert_done(invoke("keygen", "key.pem"))
    shutil.copytree(honest, tmp_path / "_aot")
    make(tmp_path / "_aot/index.sig")
    with no_hang(), pytest.raises(AotbuildError):
        aotbuild.load(tmp_path / "_aot", trust=["key.pub.pem"])
    with no_hang():
        assert_refused(invoke("verify", "_aot", "--no-run", "--trust", "key.pub.pem"))


@pytest.mark.cause(16)
@special
def test_in_the_place_of_a_recording(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "calls")
    with no_hang():
        assert_refused(invoke("coverage", "calls", "nowhere"))
        assert_refused(invoke("record", "--from", "calls"))


@pytest.mark.cause(16)
@special
def test_in_the_place_of_weights(
    make: Callable[[Path], None], tmp_path: Path, honest: Path
) -> None:
    make(tmp_path / "w.safetensors")
    with no_hang(), pytest.raises(OSError, match=r"w\.safetensors"):
        aotbuild.read_safetensors("w.safetensors")
    library = aotbuild.load(honest, arrays="numpy")
    with no_hang(), pytest.raises(AotbuildError):
        library.swap_constants("w.safetensors")


@pytest.mark.cause(16)
@special
def test_in_the_place_of_stages(make: Callable[[Path], None], tmp_path: Path, honest: Path) -> None:
    make(tmp_path / "stages.zip")
    with no_hang():
        assert_refused(invoke("inspect", honest, "--stage", "hlo", "--stages", "stages.zip"))


@pytest.mark.cause(16)
@special
def test_in_the_place_of_the_stages_beside_a_package(
    make: Callable[[Path], None], tmp_path: Path, honest: Path
) -> None:
    def edit(header: Any) -> None:
        header[HEADER_KEY] = BESIDE

    place = lies.edited(honest, tmp_path / "p", "double", header=edit)
    make(stages_path(place))
    with no_hang():
        assert_refused(invoke("verify", place, "--no-run"), stages_path(place).name)


@pytest.mark.cause(16)
@special
@pytest.mark.parametrize("read", [open_regular, read_regular, RegularZip], ids=lambda f: f.__name__)
def test_what_opens_files(
    read: Callable[[Path], Any], make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "x")
    with no_hang(), pytest.raises(OSError, match="x"):
        read(tmp_path / "x")


# --- sizes ----------------------------------------------------------------------------------------


def sparse(place: Path, size: int, start: bytes = b"") -> Path:
    with place.open("wb") as file:
        file.write(start)
        file.truncate(size)
    return place


HUGE = (1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30)


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_a_blob_that_claims_to_be_huge(
    size: int, arrays: str, tmp_path: Path, honest: Path
) -> None:
    def edit(record: Any) -> None:
        record["blob"][2] = size

    place = lies.edited(honest, tmp_path, "double", edit)
    with no_hang(), pytest.raises(AotbuildError):
        aotbuild.load(place, arrays=arrays).preload(require=True)
    with no_hang():
        assert_refused(invoke("verify", "_aot", "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("key", ["constants", "golden"])
def test_another_file_that_claims_to_be_huge(key: str, tmp_path: Path, honest: Path) -> None:
    def edit(record: Any) -> None:
        if key == "golden":
            record["golden"]["outputs"][2] = 1 << 61
        else:
            record["calling"]["constants"][0][1][2] = 1 << 61

    place = lies.edited(honest, tmp_path, "shifted", edit)
    with no_hang():
        assert_refused(invoke("verify", place, "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [MOST_INDEX + 1, 1 << 40])
@pytest.mark.parametrize("start", [b"", b"aotbuild-index 1 "], ids=["zeros", "begun"])
def test_a_sparse_index(size: int, start: bytes, tmp_path: Path) -> None:
    (tmp_path / "_aot").mkdir()
    sparse(tmp_path / "_aot/index", size, start)
    with no_hang(), pytest.raises(AotbuildError, match=f"at most {MOST_INDEX:,} bytes"):
        aotbuild.load(tmp_path / "_aot")
    for words in OF_FOLDERS:
        with no_hang():
            assert_refused(invoke(*words))


def wheel_with(place: Path, honest: Path, **bombs: int) -> Path:
    """Write a wheel with members of so many zeros, which compress by a factor of 1,000."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {
            "demo/_aot/index": (honest / "index").read_bytes(),
            f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{INFO}/RECORD": b"",
        }
        for name, data in files.items():
            archive.writestr(name, data)
    for name, size in bombs.items():
        member = next(each for each in files if each.endswith(name))
        claim(place, member, size)
    return place


def claim(place: Path, member: str, size: int) -> None:
    """Have both headers of a member say that it unpacks to so many bytes."""
    with zipfile.ZipFile(place) as archive:
        info, start = archive.getinfo(member), archive.start_dir
    data = bytearray(place.read_bytes())
    struct.pack_into("<I", data, info.header_offset + 22, size)
    entry = data.index(member.encode(), start) - 46
    struct.pack_into("<I", data, entry + 24, size)
    place.write_bytes(data)


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["index", "METADATA", "RECORD", "WHEEL"])
@pytest.mark.parametrize("words", OF_WHEELS[:3], ids=" ".join)
def test_a_member_that_claims_to_be_huge(
    words: tuple[str, ...], name: str, tmp_path: Path, honest: Path
) -> None:
    wheel_with(tmp_path / WHEEL, honest, **{name: (1 << 32) - 2})
    with no_hang():
        ended = invoke(*(word.format(WHEEL) for word in words))
    # Not all of them read all members.
    assert_refused(ended, codes=[0, 7, 9])


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["METADATA", "RECORD"])
def test_a_bomb(name: str, tmp_path: Path, honest: Path) -> None:
    place = wheel_with(tmp_path / WHEEL, honest)
    with zipfile.ZipFile(place) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    member = f"{INFO}/{name}"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in files.items():
            archive.writestr(each, data + b" " * (80 << 20) if each == member else data)
    library = aotbuild.load(place)
    assert library.version is None
    for words in (("inspect", WHEEL), ("diff", WHEEL, WHEEL), ("stubs", WHEEL)):
        with no_hang():
            assert_refused(invoke(*words), codes=[0, 7])


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [MOST_DIRECTORY + 1, (1 << 32) - 2])
def test_a_directory_that_claims_to_be_huge(size: int, tmp_path: Path, honest: Path) -> None:
    place = wheel_with(tmp_path / WHEEL, honest)
    end = place.read_bytes()[-22:]
    sparse(place, size + (1 << 20))
    with place.open("ab") as file:
        file.write(end[:12] + struct.pack("<II", size, 1 << 19) + end[20:])
    with no_hang(), pytest.raises(AotbuildError, match="its directory has"):
        aotbuild.load(place)
    for words in OF_WHEELS[:3]:
        with no_hang():
            assert_refused(invoke(*(word.format(WHEEL) for word in words)))


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [1 << 33, 1 << 40])
def test_a_sparse_wheel(size: int, tmp_path: Path) -> None:
    sparse(tmp_path / WHEEL, size)
    with no_hang():
        assert_refused(invoke("inspect", WHEEL))
        assert_refused(invoke("verify", WHEEL, "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["aot.yaml", "calls", "key.pem", "w.safetensors", "stages.zip"])
def test_a_sparse_file(name: str, tmp_path: Path, honest: Path) -> None:
    sparse(tmp_path / name, 1 << 40)
    words: dict[str, tuple[object, ...]] = {
        "aot.yaml": ("plan",),
        "calls": ("record", "--from", "calls"),
        "key.pem": ("sign", honest, "--key", "key.pem"),
        "w.safetensors": ("weights", name, "--like", "x.whl", "--version", "2", "--out", "out"),
        "stages.zip": ("inspect", honest, "--stage", "hlo", "--stages", name),
    }
    with no_hang():
        assert_refused(invoke(*words[name]))
    if name == "w.safetensors":
        with no_hang(), pytest.raises(AotbuildError):
            aotbuild.read_safetensors(name)
    with no_hang(), pytest.raises(OSError, match=f"{MOST_TEXT:,}"):
        read_regular(name)


@pytest.mark.cause(12)
def test_the_limits_are_generous() -> None:
    assert MOST_METADATA > 1 << 20
    assert MOST_INDEX > 100_000 * 1500


# --- names ----------------------------------------------------------------------------------------

MANY = 200_000  # seconds, or an hour if each is looked up in all the others


@pytest.mark.cause(13)
@pytest.mark.parametrize("key", ["positional", "keywords", "donate"])
@pytest.mark.parametrize("command", ["inspect", "diff"])
def test_many_names(command: str, key: str, tmp_path: Path, honest: Path) -> None:
    names = [f"p{number}" for number in range(MANY)]

    def edit(function: Any) -> None:
        function[key] = [*function[key], *names]

    place = lies.edited(honest, tmp_path, "double", function=edit)
    with no_hang():
        ended = invoke(command, place, *([place] if command == "diff" else []))
    # What is donated has to be a parameter.
    assert_refused(ended, codes=[7] if key == "donate" else [0])


METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\nRequires-Dist: jaxlib\n"


@pytest.mark.cause(19)
@pytest.mark.parametrize(
    ("name", "version"),
    [("other", "1.0"), ("demo", "2.0"), ("demo", "1.0.post1"), ("../demo", "1.0"), ("", "1.0")],
)
def test_verify_and_split_agree_about_metadata(
    name: str, version: str, tmp_path: Path, honest: Path
) -> None:
    place = wheel_with(tmp_path / WHEEL, honest)
    with zipfile.ZipFile(place) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    files[f"{INFO}/METADATA"] = METADATA.format(name, version).encode()
    with zipfile.ZipFile(place, "w") as archive:
        for each, data in files.items():
            archive.writestr(each, data)
    words = f"METADATA is not of {WHEEL}: expected demo 1.0, found "
    assert_refused(invoke("verify", WHEEL, "--no-run"), words)
    assert_refused(invoke("split", WHEEL, "--out", "out"), words)
