"""Jobs of Slurm: its commands as scripts, which fail as those of a busy cluster do, or for real."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.installs import tree_of
from support.projects import MANIFEST, write_project

from aotbuild.build.executors import submitted
from aotbuild.build.executors.slurm import submitting
from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.errors import BuildError, PlanError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

TEXT = """
version: 1
package: proj
targets: [{cpu: {isa: [x86-64-v3]}}]
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [1, 2, 3]}}
"""
# Each command reads what goes wrong from a file of its name: how often it fails, and how.
FAILS = """#!/bin/bash
cd "$(dirname "$0")"/..
echo "$0 $*" >> commands
if [ -s fails/"$(basename "$0")" ]; then
  head -n 1 fails/"$(basename "$0")" >&2
  sed -i 1d fails/"$(basename "$0")"
  exit 1
fi
"""
COMMANDS = {
    "squeue": "cat queue",
    "scancel": "true",
    "scontrol": 'echo "MaxArraySize            = 2"',
    # submitit's options come first, the command after them.
    "srun": """
while [ "${1#--}" != "$1" ]; do [ "$1" = --unbuffered ] || shift; shift; done
exec "$@"
""",
    "sbatch": """
number=$(($(cat number) + 1))
echo $number > number
echo "Submitted batch job $number"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
export SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
for index in $(seq 0 ${last:-0}); do
  [ -z "$last" ] || export SLURM_ARRAY_JOB_ID=$number SLURM_ARRAY_TASK_ID=$index
  SLURM_JOB_ID=$number bash "$1" > log-$number-$index 2>&1 &
done
""",
}


class Cluster:
    """The commands of Slurm, whose jobs are processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "fails").mkdir()
        (folder / "number").write_text("0")
        # However long they take: a job that is not listed counts as lost after a while.
        (folder / "queue").write_text("1_0|RUNNING|None\n1_1|RUNNING|None\n2|RUNNING|None\n")
        for name, text in COMMANDS.items():
            script = folder / "bin" / name
            script.write_text(FAILS + text)
            script.chmod(0o755)

    def fail(self, command: str, *errors: str) -> None:
        (self.folder / "fails" / command).write_text("".join(f"{error}\n" for error in errors))

    def calls(self, command: str) -> list[str]:
        lines = (self.folder / "commands").read_text().splitlines()
        return [line for line in lines if line.partition(" ")[0].endswith(f"/{command}")]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(tmp_path / "slurm")
    monkeypatch.setenv("PATH", str(cluster.folder / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(submitted, "_ASK", 0.0)
    monkeypatch.setattr(submitted, "_PAUSE", 0.0)
    return cluster


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(
        tmp_path / "p", TEXT, m="import jax\n\ndef f(x):\n    return jax.numpy.sin(x)"
    )


def build(root: Path, executor: str | None) -> dict[str, bytes]:
    manifest = load_manifest(root / MANIFEST)
    plan, sources = make_plan(manifest, probe()), find_sources(root, manifest.package)
    build_package(plan, sources, root / "out" / "_aot", executor=executor, jobs=3)
    return tree_of(root / "out" / "_aot")


def slurm(tmp_path: Path, options: str = "") -> str:
    return f"slurm://?folder={tmp_path / 'shared'}{options}"


def test_a_busy_controller_costs_a_build_nothing_but_time(
    tmp_path: Path, root: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    busy = "error: Socket timed out on send/recv operation"
    cluster.fail("sbatch", f"sbatch: {busy}", f"sbatch: {busy}")
    cluster.fail("scontrol", f"slurm_load_ctl_conf {busy}")
    cluster.fail("squeue", *[f"squeue: {busy}"] * 4)
    with caplog.at_level(logging.WARNING, "aotbuild"):
        assert build(root, slurm(tmp_path)) == build(root, None)
    assert cluster.calls("scontrol")
    # An array has at most as many jobs as the cluster allows.
    assert (cluster.folder / "number").read_text().strip() == "2"
    assert [text.partition(" failed")[0] for text in caplog.messages] == [
        "submitting jobs",
        "asking for the state of jobs",
    ]


def test_a_controller_that_stays_away_is_one_error(
    tmp_path: Path, root: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitted, "_PATIENCE", 0.2)
    (cluster.folder / "bin" / "srun").write_text("#!/bin/sh\nexec sleep 60\n")
    cluster.fail("squeue", *["squeue: error: Unable to contact slurm controller"] * 1000)
    with pytest.raises(PlanError) as caught:
        build(root, slurm(tmp_path))
    assert str(caught.value) == (
        "slurm: asking for the state of jobs has failed for 0.2 s: squeue ended with exit code 1: "
        "squeue: error: Unable to contact slurm controller"
    )
    assert cluster.calls("scancel")[0].endswith("scancel 1_0 1_1 2")


def test_what_sbatch_refuses_is_one_error_at_once(
    tmp_path: Path, root: Path, cluster: Cluster
) -> None:
    cluster.fail("sbatch", "sbatch: error: invalid partition specified: gpu")
    with pytest.raises(PlanError) as caught:
        build(root, slurm(tmp_path, "&partition=gpu"))
    assert str(caught.value) == ("slurm: sbatch: error: invalid partition specified: gpu")


def test_a_job_that_ends_without_a_result_is_tried_again_and_its_state_told(
    tmp_path: Path, root: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitted, "_LATE", 0.0)
    monkeypatch.setattr(submitted.SubmittedJobs.__init__, "__defaults__", (0.0,))
    (cluster.folder / "bin" / "srun").write_text("#!/bin/sh\nexit 1\n")
    states = "".join(f"{job}|OUT_OF_MEMORY|None\n" for job in ("1_0", "1_1", "2", "3_0", "3_1"))
    (cluster.folder / "queue").write_text(states)
    with pytest.raises(BuildError) as caught:
        build(root, slurm(tmp_path))
    failures = [failure.message for failure in caught.value.failures]
    assert len(failures) == 3
    assert all("2 workers were lost while they worked at it" in text for text in failures)
    assert "left the queue without a result (OUT_OF_MEMORY)" in str(failures)


def test_a_job_that_cannot_start_is_a_warning(
    tmp_path: Path, root: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    waits = "".join(f"{job}|PENDING|PartitionTimeLimit\n" for job in ("1_0", "1_1", "2"))
    (cluster.folder / "queue").write_text(waits)
    with caplog.at_level(logging.WARNING, "aotbuild"):
        build(root, slurm(tmp_path))
    assert caplog.messages == ["job 1_0 waits in the queue: PartitionTimeLimit"]


def test_nothing_is_removed_from_the_folder_that_it_is_given(
    tmp_path: Path, cluster: Cluster
) -> None:
    place = tmp_path / "scratch"
    kept, left = place / "thesis", place / "aotbuild-slurm" / "build-old"
    for folder in (kept, left):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    submitting(f"slurm://?folder={place}").close()
    assert kept.is_dir()
    assert not left.exists()


def why_no_cluster() -> str | None:
    """Return why jobs cannot be submitted here; None if they can."""
    if shutil.which("sbatch") is None:
        return "sbatch is not installed"
    command = ["sbatch", "--test-only", "--time=1", "--wrap=true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "sbatch does not answer"
    return done.stderr.strip() or "sbatch failed" if done.returncode else None


def test_a_real_cluster(tmp_path: Path, root: Path) -> None:
    """Its nodes must see this machine's temporary folder, as those of one machine do."""
    if reason := why_no_cluster():
        pytest.skip(reason)
    assert build(root, slurm(tmp_path)) == build(root, None)
