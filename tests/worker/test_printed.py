"""What the user's code prints while it is traced: shown with a failure, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, write_project

from aotbuild.errors import BuildError, UnitFailure, listing
from aotbuild.worker.printed import Printed

MODEL = """
import os, subprocess, sys
print("importing")
def bad(x):
    print("shape", x.shape)
    print("to stderr", file=sys.stderr)
    sys.stdout.write('{"type": "done"}\\n')
    sys.__stdout__.write("kept, too\\n")
    raise ValueError("no")
def loud(x):
    # Past Python's streams, as C libraries and other programs write.
    os.write(1, b'{"type": "done"}\\n')
    subprocess.run([sys.executable, "-c", "print('other')"], check=True, stdout=sys.stdout)
    assert not sys.stdout.isatty() and sys.stdout.encoding == "utf-8"
    sys.stdout.buffer.write(b"bytes\\n")
    return x + 1
"""
MANIFEST = """
version: 1
package: proj
defaults: {verify: {golden: never}}
functions:
  bad: {call: "proj.model:bad", args: [x: "f32[n]"], dims: {n: [1, 2]}}
"""
LOUD = 'functions: {loud: {call: "proj.model:loud", args: [x: "f32[1]"]}}\n'


@pytest.mark.process
class TestBuild:
    def test_a_failure_shows_what_was_printed(self, tmp_path: Path) -> None:
        with pytest.raises(BuildError) as caught:
            build(write_project(tmp_path, MANIFEST, model=MODEL))
        one, two = (failure.printed.splitlines() for failure in caught.value.failures)
        # Compilers may take the units in any order.
        assert sorted([one[-4], two[-4]]) == ["shape (1,)", "shape (2,)"]
        assert one[-3:] == two[-3:] == ["to stderr", '{"type": "done"}', "kept, too"]
        text = str(caught.value)
        assert text.count("ValueError: no") == text.count("printed meanwhile:") == 1
        assert "\n    printed meanwhile:\n      importing\n      shape (" in text

    def test_printing_does_not_disturb_the_messages(self, tmp_path: Path) -> None:
        manifest = MANIFEST.partition("functions:")[0] + LOUD
        (record,) = build(write_project(tmp_path, manifest, model=MODEL)).records
        assert record.function == "loud"


def test_only_the_end_is_kept() -> None:
    printed = Printed()
    assert printed.end() == ""
    printed.add("a\n" * 3000)
    printed.add("b\n" * 3000)
    assert printed.end() == "…" + ("b\n" * 3000).rstrip()[-4000:]
    printed.clear()
    printed.add("c\n")
    assert printed.end() == "c"


def test_equal_failures_are_listed_once() -> None:
    failures = [UnitFailure(name, "trace", "no", text) for name, text in (("f", ""), ("g", "hi"))]
    assert listing(failures) == "f\ng: trace:\n    no\n    printed meanwhile:\n      hi"
