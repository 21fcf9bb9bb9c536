"""tools/release.py: a release is what its tag and the changelog say, and passes all checks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.processes import ROOT

pytestmark = pytest.mark.process

VERSION = "0.1.0"
# What a wheel and a source distribution are made of.
SHIPPED = ("aotbuild", "hatch_plugin", "configs", "tools", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a clean checkout of these sources, whose changelog has a section for the version."""
    root = tmp_path / "checkout"
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / name)
    (root / ".gitignore").write_text("__pycache__/\n/dist/\n")
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} - 2026-12-24\n- All of it.\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        subprocess.run([*git, *arguments], cwd=root, check=True)
    return root


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / "tools" / "release.py", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.wheel
@pytest.mark.any_jax
def test_a_release(checkout: Path) -> None:
    done = release(checkout, "--tag", f"v{VERSION}")
    assert done.returncode == 0, done.stderr
    *digests, last = done.stdout.splitlines()
    names = [f"aotbuild-{VERSION}-py3-none-any.whl", f"aotbuild-{VERSION}.tar.gz"]
    assert [line.split()[1] for line in digests] == names
    assert sorted(path.name for path in (checkout / "dist").iterdir()) == names
    assert last == f"aotbuild {VERSION}: ready"


def test_all_that_does_not_fit_the_tag_is_said(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n- More.\n\n## 0.0.9\n- Some.\n")
    (checkout / "dist").mkdir()
    (checkout / "dist" / "old.whl").touch()
    done = release(checkout, "--tag", "v0.2.0")
    assert done.returncode == 1
    assert done.stderr == (
        f"release: the tag: expected v{VERSION}, as in aotbuild/__init__.py, found v0.2.0\n"
        f"release: CHANGELOG.md: expected ## {VERSION} first, found ## Unreleased\n"
        "release: the checkout: expected no changes, found\n     M CHANGELOG.md\n"
        f"release: {checkout / 'dist'}: expected an empty folder, or none\n"
    )


def test_the_workflow_publishes_without_a_token() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert build["permissions"] == {"contents": "read"}
    assert any("tools/release.py" in step.get("run", "") for step in build["steps"])
    # Only the job that uploads has the identity, and it runs nothing of the checkout.
    assert publish["permissions"] == {"id-token": "write"}
    assert [step.get("run") for step in publish["steps"]] == [None, None]
    assert publish["steps"][-1]["uses"] == "pypa/gh-action-pypi-publish@release/v1"
    assert "secrets." not in text
