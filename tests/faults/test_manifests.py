"""Manifests that ask for far too much: one clear error, or what they ask for; never all memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults.ended import NEVER, assert_refused
from support.cli import invoke

from aotbuild.build.plan import MAX_UNITS, make_plan
from aotbuild.errors import ManifestError, PlanError
from aotbuild.manifest import parse_manifest
from aotbuild.toolchains.environments import find_environment

HEAD = "version: 1\npackage: p\n"
ARGS = "args: [x: 'f32[4]']"


def with_options(options: str, args: str = ARGS, targets: str = "cpu") -> str:
    entry = f"{{call: 'm:f', {args}, {options}}}"
    return f"{HEAD}targets: [{targets}]\nfunctions:\n  f: {entry}\n"


def listed(count: int, form: str = "{0}") -> str:
    """Return so many items with commas, each made of its number."""
    return ", ".join(form.format(number) for number in range(count))


def nested(depth: int) -> str:
    return "[" * depth + "'f32[4]'" + "]" * depth


def refusal(text: str) -> str:
    """Return why a manifest is refused, as its reader or its plan says."""
    try:
        manifest = parse_manifest(text)
        with pytest.raises(PlanError) as caught:
            make_plan(manifest, find_environment(manifest))
    except ManifestError as err:
        message = str(err)
    else:
        message = str(caught.value)
    assert not [words for words in NEVER if words in message]
    return message


# --- too many devices ----------------------------------------------------------------------------

MESHES = {
    "an axis of 100 million": ("mesh: {a: 100000000}", "expected at most 65536, found the number"),
    "a product": ("mesh: {a: 10000, b: 10000}", "a mesh of 100000000 devices; a call for cpu has"),
    "more than XLA makes of a CPU": ("mesh: {a: 8193}", "a call for cpu has at most 8192"),
}
TARGETS = {
    "cpu": ("{cpu: {devices: 100000000}}", "targets.0.cpu.devices: expected at most 8192"),
    "cuda": (
        "{cuda: {gpu: h100-sxm, devices: 100000000}}",
        "targets.0.cuda.devices: expected at most 65536",
    ),
    "a topology": ("{tpu: {topology: 'v5p:10000x10000x10000'}}", "v5p has at most 8960"),
}


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh(name: str) -> None:
    options, says = MESHES[name]
    assert says in refusal(with_options(options))


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    target, says = TARGETS[name]
    assert says in refusal(with_options("keep_unused: true", targets=target))


# --- too many units ------------------------------------------------------------------------------

DIMS = "args: [x: 'f32[n,m]']"


def test_signatures_of_one_function() -> None:
    found = refusal(with_options(f"dims: {{n: [{listed(1001)}], m: [{listed(101)}]}}", DIMS))
    assert "signatures; at most 100000 are built for a function" in found


def test_units_of_all_functions() -> None:
    sizes = f"dims: {{n: [{listed(300)}], m: [{listed(300)}]}}"
    one = f"{{call: 'm:f', args: [x: 'f32[n,m]'], {sizes}}}"
    text = f"{HEAD}functions:\n" + "".join(f"  f{number}: {one}\n" for number in range(3))
    says = f"aot.yaml: 270,000 build units; at most {MAX_UNITS:,} are built at once: list the rows"
    assert refusal(text).startswith(says)


# --- long, deep and many -------------------------------------------------------------------------

LONG = "x" * 100_000
TEXTS = {
    "a megabyte": ("# " + "x" * (1 << 20), "larger than 1048576 bytes"),
    "brackets without end": ("[" * 100_000, "nested deeper than 64 levels"),
    "a spec nested deeply": (
        with_options("keep_unused: true", f"args: [x: {nested(500)}]"),
        "deeper",
    ),
    "a number of 100,000 digits": (
        with_options(f"dims: {{n: {'9' * 100_000}}}"),
        "a number of 100000 characters",
    ),
    "a spec of many characters": (with_options(f"x: '{LONG}'", f"args: [x: '{LONG}']"), "too long"),
    "3,000 names that are unknown": (with_options(f"donate: [{listed(3000, 'a{}')}]"), "neither"),
    "a size beyond 2^63": (with_options(f"dims: {{n: {2**63}}}"), "expected at most"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(tmp_path: Path, name: str) -> None:
    text, says = TEXTS[name]
    message = refusal(text)
    assert says in message
    assert len(message) < 200_000
    (tmp_path / "aot.yaml").write_text(text)
    assert_refused(invoke("plan", tmp_path / "aot.yaml"), codes=[3])


# --- files of the machine ------------------------------------------------------------------------

SECRET = "hunter2"
# Where a manifest names a file, and what of it an error must not show.
OPTIONS = {
    "gpu": ("[cuda: {{gpu: '{}'}}]", "args: [x: 'f32[4]']"),
    "tuning": ("[cuda: {{gpu: h200, tuning: '{}'}}]", "args: [x: 'f32[4]']"),
}
# What makes `./here.FORM` in the folder of the manifest, or None, and what is named.
PLACES = {
    "above": (None, "../../secret.{0}"),
    "a link": (lambda here, secret: here.symlink_to(secret), "./here.{0}"),
    "a file of the process": (lambda here, _: here.symlink_to("/proc/self/environ"), "./here.{0}"),
    "a file that is something else": (lambda here, secret: shutil.copy(secret, here), "./here.{0}"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", OPTIONS)
def test_no_file_of_the_machine_is_quoted(
    option: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest of somebody else's change would show it in the log."""
    monkeypatch.setenv("TOKEN_OF_CI", SECRET)
    make, named = PLACES[place]
    form = {"gpu": "yaml", "tuning": "textproto"}[option]
    folder = tmp_path / "project" / "configs"
    folder.mkdir(parents=True)
    (folder.parent / "pyproject.toml").touch()
    secret = tmp_path / f"secret.{form}"
    secret.write_text(f"token {SECRET}: {SECRET}\n{SECRET}\n", encoding="utf-8")
    if make is not None:
        make(folder / f"here.{form}", secret)
    targets, args = (text.format(named.format(form, tmp_path)) for text in OPTIONS[option])
    text = f"{HEAD}targets: {targets}\nfunctions:\n  f: {{call: 'm:f', {args}}}\n"
    (folder / "aot.yaml").write_text(text, encoding="utf-8")
    ended = invoke("plan", folder / "aot.yaml", "--root", folder.parent)
    assert_refused(ended)
    if place != "a file that is something else":  # its author wrote it, too
        assert SECRET not in ended.output
