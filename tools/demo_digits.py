"""The digits: answers of the wheel are right, are those of jit, and nothing was compiled."""

from textwrap import indent

from demo_commands import Report, probe, run
from demo_results import all_close, count_problems, spread

PROBE = "demo_digits_probe.py"
PAIRS = 3
LEAST_ACCURACY = 0.95


def measure(python: str) -> list[str]:
    """Start processes that use the wheel and others that use jit; print, and return problems."""
    print(indent(run([python, "-P", "-m", "digits"]).rstrip(), "  "))
    pairs = [(probe(python, PROBE, "aot"), probe(python, PROBE, "jit")) for _ in range(PAIRS)]
    aot, jit = map(list, zip(*pairs, strict=True))
    for name, reports in (("aotbuild", aot), ("jax.jit", jit)):
        seconds = spread([report["seconds"] for report in reports])
        compiled = reports[-1]["counts"]["compilations"]
        print(f"  {name:<10}first result after {seconds}, compilations: {compiled}")
    return [f"digits: {problem}" for problem in _problems(aot, jit)]


def _problems(aot: list[Report], jit: list[Report]) -> list[str]:
    """Nearly all digits were recognized, and both ways gave the same log-probabilities."""
    least = min(report["accuracy"] for report in aot + jit)
    problems = [] if least >= LEAST_ACCURACY else [f"accuracy {least:.3f} < {LEAST_ACCURACY}"]
    problems += [
        f"outputs of precompiled run {number} differ from those of jit"
        for number, report in enumerate(aot, 1)
        if not all_close(report["outputs"], jit[0]["outputs"])
    ]
    return problems + count_problems([report["counts"] for report in aot], jit[0]["counts"])
