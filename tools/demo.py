"""Build the examples' wheels, install them into a fresh environment and measure first answers.

Needs Python 3.11 and a package index, nothing else. Everything it makes is in `.demo/`, made anew
each time; the environment of the compilers for GPUs and TPUs is kept with those of all builds
(docs/how-to/toolchains.md). Ends with 1 if a step fails, if the wheels' answers are wrong or differ
from jit's, or if a process that uses the wheels traces, lowers or compiles anything.

`--write-readme` puts the result into README.md.
"""

import shutil
import sys
import time
from textwrap import indent

import demo_digits
import demo_everywhere
import demo_lm
import demo_readme
from demo_commands import (
    DEMO,
    DIST,
    FOLDERS,
    ROOT,
    WHEELS,
    StepFailed,
    build_wheel,
    heading,
    make_environment,
)

EXAMPLES = (ROOT / "example_project", ROOT / "example_project" / "lm")


def main() -> int:
    """Run the demo; return the exit status."""
    start = time.monotonic()
    try:
        problems, result = run_steps()
    except StepFailed as err:
        print(f"\nfailed\n{indent(str(err), '  ')}", file=sys.stderr)
        return 1
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    print(f"\nThe demo took {time.monotonic() - start:.0f} s, installations included.")
    if "--write-readme" in sys.argv[1:] and not problems:
        demo_readme.write(result)
    return 1 if problems else 0


def run_steps() -> tuple[list[str], list[str]]:
    """Build, install, measure and print; return what is wrong, and the lines of the result."""
    if DEMO.exists():
        shutil.rmtree(DEMO)
    for folder in FOLDERS:
        folder.mkdir(parents=True)

    heading("1. aotbuild's own wheel, and an environment to build in")
    own = build_wheel(sys.executable, ROOT, DIST)
    tools = make_environment("tools", f"aotbuild[build,jax] @ {own.as_uri()}", "safetensors")

    heading("2. the examples' wheels: trace, lower, compile, pack")
    wheels = [build_wheel(tools, each, WHEELS, "--no-build-isolation") for each in EXAMPLES]

    heading("3. a fresh environment with the wheels; flatbuffers is for jax.export")
    fresh = make_environment("fresh", *(wheel.as_uri() for wheel in wheels), "flatbuffers")

    heading("4. digits: a small network, in fresh processes")
    problems = demo_digits.measure(fresh)

    heading("5. tinylm: a language model of 30 layers, in fresh processes")
    rows, more = demo_lm.measure(fresh)

    heading("6. tinylm for machines that this one isn't")
    built = demo_everywhere.build(tools)

    result = demo_readme.result(rows, built)
    print("\n" + "\n".join(result))
    return problems + more, result


if __name__ == "__main__":
    sys.exit(main())
