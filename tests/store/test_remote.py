"""Remote layers: what they give and take; what a build does when they fail, hang or are slow."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

from aotbuild.errors import PlanError
from aotbuild.store import remote
from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Folder, name_of
from aotbuild.store.keys import key_of
from aotbuild.store.layers import Counts, Layers, open_store

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code")
RAW = write_entry(KEY, ENTRY)
PATH = f"bucket/prefix/{name_of(KEY)}"


class Fake(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system in memory; `before` runs first in each request, and may raise or wait."""

    protocol = "fake"
    files: ClassVar[dict[str, bytes]] = {}
    calls: ClassVar[list[str]] = []
    before: ClassVar[Callable[[str], None]] = staticmethod(lambda name: None)

    def _begin(self, name: str) -> None:
        self.calls.append(name)
        type(self).before(name)

    def cat_file(self, path: str, start: int, end: int) -> bytes:  # type: ignore[override]
        self._begin("read")
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self._begin("info")
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path}

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        self._begin("write")
        self.files[path] = value


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    fsspec.register_implementation("fake", Fake, clobber=True)
    monkeypatch.setattr(Fake, "files", {})
    monkeypatch.setattr(Fake, "calls", [])
    monkeypatch.setattr(Fake, "before", staticmethod(lambda name: None))
    return Fake


def fail(error: Exception, times: int = 100) -> Callable[[str], None]:
    left = [error] * times

    def before(name: str) -> None:
        if left:
            raise left.pop()

    return staticmethod(before)  # type: ignore[return-value]


def layers(*items: object) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, items))})


def get(url: str, key: str = KEY) -> Entry | None:
    with layers(url) as store:
        return store.store.get(key)


URL = "fake://bucket/prefix"


def test_an_entry_is_read_once_and_then_it_is_in_front(tmp_path: Path, fake: type[Fake]) -> None:
    fake.files[PATH] = RAW
    with layers(tmp_path, URL) as store:
        assert store.store.get(KEY) == store.store.get(KEY) == ENTRY
        assert store.store.get(OTHER) is None
        assert store.counts == Counts(used=1, fetched=1)
    assert Folder(tmp_path).read(KEY) == RAW
    assert fake.calls == ["read", "read"]


def test_what_was_made_and_used_is_pushed_once(tmp_path: Path, fake: type[Fake]) -> None:
    Folder(tmp_path).write(OTHER, write_entry(OTHER, ENTRY))
    with layers(tmp_path, URL) as store:
        assert store.store.get(KEY) is None
        store.store.put(KEY, ENTRY)
        store.store.get(OTHER)
        store.push()
        assert store.counts == Counts(used=1, made=1, pushed=2)
        # It was asked for, so it is known to lack the first one.
        assert sorted(fake.calls) == ["info", "read", "write", "write"]
        store.push()
    assert fake.files[PATH] == RAW
    assert len(fake.files) == 2
    assert len(fake.calls) == 4


def test_a_layer_that_is_read_only_is_not_written(tmp_path: Path, fake: type[Fake]) -> None:
    with layers(tmp_path, f"{URL}?mode=ro") as store:
        store.store.put(KEY, ENTRY)
        store.push()
    assert fake.calls == []


@pytest.mark.parametrize("size", [0, 1, remote._PART, 2 * remote._PART, 5 * remote._PART + 7])
def test_large_entries_come_in_parts(fake: type[Fake], size: int) -> None:
    entry = Entry({}, os.urandom(size))
    fake.files[PATH] = write_entry(KEY, entry)
    assert get(URL) == entry
    assert len(fake.calls) == -(-len(fake.files[PATH]) // remote._PART)


LARGE = write_entry(KEY, Entry({}, bytes(3 * remote._PART)))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "it does not begin as an entry of the store does"),
        (RAW[:-1] + b"x", "its SHA-256 is another one"),
        (LARGE[:-9], f"expected {len(LARGE)} bytes, found {len(LARGE) - 9}"),
        (LARGE[: remote._PART], f"expected {len(LARGE)} bytes, found {remote._PART}"),
        (write_entry(OTHER, ENTRY), f"it is the entry {OTHER}"),
    ],
)
def test_a_damaged_entry_is_not_believed_and_is_pushed_anew(
    tmp_path: Path, fake: type[Fake], caplog: pytest.LogCaptureFixture, raw: bytes, problem: str
) -> None:
    fake.files[PATH] = raw
    with layers(tmp_path, URL) as store:
        assert store.store.get(KEY) is None
        store.store.put(KEY, ENTRY)
        store.push()
    assert caplog.messages == [f"{URL}: the entry {KEY} is not used: {problem}"]
    assert fake.files[PATH] == RAW


def test_an_error_that_does_not_come_again_costs_nothing(fake: type[Fake]) -> None:
    fake.files[PATH] = RAW
    fake.before = fail(ConnectionError("reset"), times=1)
    assert get(URL) == ENTRY


def test_after_one_failure_a_layer_is_left_out(
    tmp_path: Path, fake: type[Fake], caplog: pytest.LogCaptureFixture
) -> None:
    fake.before = fail(PermissionError("Access Denied"))
    with layers(tmp_path, URL) as store:
        assert store.store.get(KEY) is None
        store.store.put(KEY, ENTRY)
        assert store.store.get(OTHER) is None
        store.push()
        assert store.counts == Counts(made=1)
    assert fake.calls == ["read"]
    text = "left out for the rest of the build: PermissionError: Access Denied"
    assert caplog.messages == [f"{URL}: {text}"]


def test_a_push_that_fails_is_one_warning(
    tmp_path: Path, fake: type[Fake], caplog: pytest.LogCaptureFixture
) -> None:
    with layers(tmp_path, URL) as store:
        for number in range(50):
            store.store.put(key_of({"n": number}), ENTRY)
        fake.before = fail(OSError("no space"))
        store.push()
        assert store.counts == Counts(made=50)
    (text,) = caplog.messages
    assert text == f"{URL}: left out for the rest of the build: OSError: no space"


def test_a_push_can_be_interrupted(
    tmp_path: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over, first = threading.Event(), threading.Lock()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            is_over.set()
            super().shutdown(wait)

    def before(name: str) -> None:
        if len(fake.calls) < 50:
            return
        if first.acquire(blocking=False):
            # As Ctrl-C does it: a signal, which also ends a wait.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        is_over.wait(60)

    monkeypatch.setattr("aotbuild.store.layers.ThreadPoolExecutor", Pool)
    with layers(tmp_path, f"{URL}?timeout=100") as store:
        for number in range(100):
            store.store.put(key_of({"n": number}), ENTRY)
        fake.before = staticmethod(before)
        with pytest.raises(KeyboardInterrupt):
            store.push()
    assert 0 < len(fake.files) < 100


def test_a_library_that_cannot_be_imported_is_a_failure(
    fake: type[Fake], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(scheme: str) -> None:
        msg = "no libfoo"
        raise ImportError(msg)

    monkeypatch.setattr(fsspec, "get_filesystem_class", broken)
    assert get(URL) is None
    assert caplog.messages == [f"{URL}: left out for the rest of the build: ImportError: no libfoo"]


def test_a_bucket_that_is_not_there_is_no_miss(
    tmp_path: Path, fake: type[Fake], caplog: pytest.LogCaptureFixture
) -> None:
    fake.before = fail(FileNotFoundError("The specified bucket does not exist"))
    assert get(URL) is None
    assert len(caplog.messages) == 1
    caplog.clear()
    fake.before = fail(FileNotFoundError("bucket"))
    with layers(tmp_path, URL) as store:
        store.store.put(KEY, ENTRY)
        store.push()
    text = "left out for the rest of the build: there is no such place"
    assert caplog.messages == [f"{URL}: {text}"]


def test_a_layer_that_hangs_costs_its_timeout_once(
    fake: type[Fake], caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()
    fake.before = staticmethod(lambda name: over.wait(60) and None)
    with layers(f"{URL}?timeout=0.2") as store, ThreadPoolExecutor(8) as threads:
        keys = [key_of({"n": number}) for number in range(8)]
        assert not any(threads.map(store.fetch, keys))
        begun = len(fake.calls)
        assert not any(map(store.fetch, keys))
        assert len(fake.calls) == begun
        store.store.put(KEY, ENTRY)
        store.push()
        assert len(fake.calls) == begun
    over.set()
    text = "left out for the rest of the build: no answer within 0.2 s"
    assert caplog.messages == [f"{URL}: {text}"]


def test_a_layer_that_is_slow_all_the_time_is_left_out(
    fake: type[Fake], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.files[PATH] = RAW
    # As if each answer had taken 3 s longer than it may.
    monkeypatch.setattr(remote, "_USUAL", -3 - remote._PART / remote._RATE)
    with layers(URL) as store:
        assert store.store.get(OTHER) is None
        assert store.store.get(KEY) == ENTRY  # 5 s are not yet over
        assert not store.fetch(key_of({"a": 3}))
    assert len(fake.calls) == 2
    text = "left out for the rest of the build: its answers were slow, by 5 s together"
    assert caplog.messages == [f"{URL}: {text}"]


SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"fake://me:{SECRET}@bucket/prefix",
        f"fake://{SECRET}@bucket/prefix",
        "fake://me:%68unter2@bucket/prefix",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "403 at {url}/v2/ab",
        "denied for hunter2",
        "403, url='https://me:hunter2@host/p?token=hunter2&x=1'",
        "https://host/p?X-Amz-Signature=hunter2 is no place\nhunter2",
    ],
)
def test_credentials_are_in_no_message(
    fake: type[Fake], caplog: pytest.LogCaptureFixture, url: str, text: str
) -> None:
    caplog.set_level(0)
    fake.before = fail(PermissionError(text.format(url=url)))
    with layers(url) as store:
        assert store.store.get(KEY) is None
        assert SECRET not in repr(store)
    assert "left out" in caplog.text
    assert SECRET not in caplog.text
    assert caplog.messages[0].startswith("fake://bucket/prefix: ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'cannot connect to "http://127.0.0.1:1/b/p"',
            'cannot connect to "http://127.0.0.1:1/b/p"',
        ),
        ('cannot connect to "http://h/b?list-type=2&prefix=p"', 'cannot connect to "http://h/b"'),
        ("(http://h/b?a='b'&c=d), or so", "(http://h/b), or so"),
    ],
)
def test_an_error_without_secrets_is_kept_but_for_queries(
    fake: type[Fake], caplog: pytest.LogCaptureFixture, text: str, shown: str
) -> None:
    fake.before = fail(ConnectionRefusedError(text))
    assert get(URL) is None
    assert caplog.messages[0].endswith(f": ConnectionRefusedError: {shown}")


def test_a_library_that_talks_to_itself_is_not_heard(
    fake: type[Fake], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("gcsfs"), "propagate", False)
    fake.before = staticmethod(lambda name: logging.getLogger("gcsfs").warning("no bucket type"))
    assert get(URL) is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("url", "absent", "text"),
    [
        ("s3://b/p", "s3fs", "needs s3fs: pip install s3fs, {extra}"),
        ("gs://b/p", "gcsfs", "needs gcsfs: pip install gcsfs, {extra}"),
        ("az://b/p", "adlfs", "needs adlfs: pip install adlfs, {extra}"),
        ("https://b/p", "aiohttp", "needs aiohttp: pip install aiohttp, {extra}"),
        ("wandb://b/p", "wandbfs", "needs wandbfs: Install wandbfs to access wandb"),
    ],
)
def test_a_library_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, url: str, absent: str, text: str
) -> None:
    monkeypatch.setattr(remote.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PlanError) as caught:
        layers("/s", url)
    scheme = url.partition(":")[0]
    text = text.format(extra='or pip install "aotbuild[remote]" for all clouds')
    assert str(caught.value) == f"{url}: a layer of the store behind {scheme}:// {text}"


def test_without_fsspec_and_with_an_unknown_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError) as caught:
        layers("nowhere://user:hunter2@b")
    expected = "expected a URL of fsspec (fsspec.available_protocols()), or a folder"
    assert str(caught.value) == f"nowhere://b: {expected}"
    monkeypatch.setitem(sys.modules, "fsspec.registry", None)
    with pytest.raises(PlanError) as caught:
        layers("s3://b")
    expected = 's3://b: a remote layer of the store needs fsspec: pip install "aotbuild[remote]"'
    assert str(caught.value) == expected
