"""Folders of the store that somebody else may write to: a warning, or a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from faults.entry_damage import ENTRY, KEY, RAW
from support.cli import invoke
from support.signing import keys, public_file

from aotbuild.errors import PlanError
from aotbuild.store.folder import Folder
from aotbuild.store.layers import open_store
from aotbuild.store.places import front_folder

pytestmark = pytest.mark.cause(17)

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
NOBODY = 65534
MODES = {0o1777: "everybody", 0o777: "everybody", 0o757: "everybody", 0o2777: "everybody"}
GROUPS = {0o775: "its group", 0o2770: "its group", 0o720: "its group"}
SAFE = [0o700, 0o755, 0o500, 0o1755, 0o2755, 0o711]
PARTS = ["", "v2", f"v2/{KEY[:2]}"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one entry, which nobody else may write to."""
    root = tmp_path / "store"
    Folder(root).write(KEY, RAW)
    for part in PARTS:
        (root / part).chmod(0o755)
    return root


def of_others(path: Path) -> None:
    """Give a folder to a group that is not this user's alone."""
    os.chown(path, -1, NOBODY)


def warnings(caplog: pytest.LogCaptureFixture, *items: object, **variables: str) -> list[str]:
    """Return what a build says of its store, in which it finds an entry all the same."""
    with open_store({"AOTBUILD_STORE": ",".join(map(str, items)), **variables}) as opened:
        assert opened.store.get(KEY) == ENTRY
    return caplog.messages


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", [*MODES, *GROUPS], ids=oct)
@AS_ROOT
def test_a_warning_or_a_refusal(
    store: Path, part: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    of_others(path := store / part)
    path.chmod(mode)
    (text,) = warnings(caplog, store)
    who = (MODES | GROUPS)[mode]
    assert text.startswith(f"{path}: {who} may write to it (mode {mode:o}), and what others put ")
    with pytest.raises(PlanError) as caught:
        open_store({"AOTBUILD_STORE": str(store), "AOTBUILD_STORE_STRICT": "on"})
    assert str(caught.value) == f"{text} (AOTBUILD_STORE_STRICT is on)"


@pytest.mark.parametrize("mode", SAFE, ids=oct)
def test_nothing_where_only_this_user_may_write(
    store: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    for part in PARTS:
        (store / part).chmod(mode)
    assert warnings(caplog, store, AOTBUILD_STORE_STRICT="on") == []


def test_nothing_where_there_is_no_folder_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store({"AOTBUILD_STORE": str(tmp_path / "new"), "AOTBUILD_STORE_STRICT": "on"}):
        assert caplog.messages == []


@AS_ROOT
@pytest.mark.parametrize("part", PARTS)
def test_a_folder_of_another_user(store: Path, part: str, caplog: pytest.LogCaptureFixture) -> None:
    os.chown(store / part, NOBODY, -1)
    (text,) = warnings(caplog, store)
    assert text.startswith(f"{store / part}: it belongs to nobody, and what others put there ")


@AS_ROOT
def test_a_user_without_a_name(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.chown(store, 1_234_567, -1)
    (text,) = warnings(caplog, store)
    assert text.startswith(f"{store}: it belongs to user 1234567, ")


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_folder_behind(
    store: Path, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.chmod(0o1777)
    (text,) = warnings(caplog, tmp_path / "front", f"{store}?mode={mode}")
    assert text.startswith(f"{store}: everybody may write to it")


def test_a_folder_behind_whose_entries_must_be_signed(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others may write to it, and nothing that they write is used."""
    (key,) = keys(1)
    trust = {"AOTBUILD_STORE_TRUST": str(public_file(tmp_path / "key.pub.pem", key))}
    store.chmod(0o1777)
    items = {"AOTBUILD_STORE": f"{tmp_path}/front,{store}", "AOTBUILD_STORE_STRICT": "on"}
    with open_store(items | trust) as opened:
        assert opened.store.get(KEY) is None
    (text,) = caplog.messages
    assert text.endswith("is not used: it is not signed")


@pytest.mark.parametrize("value", ["on", "1"])
def test_before_a_finished_build_is_taken_from_it(store: Path, value: str) -> None:
    store.chmod(0o1777)
    with pytest.raises(PlanError, match="everybody may write to it"):
        front_folder({"AOTBUILD_STORE": str(store), "AOTBUILD_STORE_STRICT": value})


@pytest.mark.parametrize("value", ["off", "0"])
def test_silence_for_those_who_ask_for_it(
    store: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.chmod(0o1777)
    assert warnings(caplog, store, AOTBUILD_STORE_STRICT=value) == []


def test_another_value(store: Path) -> None:
    with pytest.raises(PlanError, match="AOTBUILD_STORE_STRICT: expected on or off, found 'yes'"):
        open_store({"AOTBUILD_STORE": str(store), "AOTBUILD_STORE_STRICT": "yes"})


def test_one_warning_however_often_it_is_opened(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.chmod(0o1777)
    for _ in range(3):
        warnings(caplog, store)
        front_folder({"AOTBUILD_STORE": str(store)})
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(("value", "code"), [("on", 4), ("", 0)])
def test_pull_from_such_a_folder(
    store: Path, tmp_path: Path, value: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.chmod(0o1777)
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "front"))
    monkeypatch.setenv("AOTBUILD_STORE_STRICT", value)
    assert invoke("store", "pull", store).exit_code == code
    assert Folder(tmp_path / "front").has(KEY) == (code == 0)
