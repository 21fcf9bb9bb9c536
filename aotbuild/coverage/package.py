"""What of a package serves calls: its index says it, and no executable is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from aotbuild.coverage.differences import CompiledSignature, nearest_lines
from aotbuild.coverage.result import Compiled, Serving, State, best
from aotbuild.coverage.signature import NoSignature, shardings_of, signature_of
from aotbuild.format.padding import Padding, volume
from aotbuild.format.record import Record
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target
from aotbuild.format.trace import CONFIG, NUMBER_OPTIONS
from aotbuild.platforms.base import checks
from aotbuild.record.recording import RecordedCall, RecordedFunction
from aotbuild.report.facts import FunctionFacts, PackageFacts, SignatureFacts, short_label
from aotbuild.runtime.padding import buckets_for, padded_signature, sizes_of

# A call that is missing is compared with all signatures of its function, if it is among the first.
_MOST_COMPARED = 200
# Where an executable runs: its target, and the jaxlib that it needs.
_Host: TypeAlias = tuple[Target, str | None]
_PORTABLE = "there is only a portable form, which is compiled when it is called"


class PackageServing:
    """Finds what a package has for calls."""

    def __init__(self, facts: PackageFacts, target: str = "") -> None:
        """Take the package; `target` is the beginning of the targets that count, as `cuda`."""
        self.place, self.facts, self._target = facts.place, facts, target
        self._compared = 0

    @cached_property
    def targets(self) -> list[_Host]:
        """The targets that count, without portable ones, each with its jaxlib."""
        every = set(map(_host, self._counted(self.facts.records)))
        return sorted((host for host in every if not host[0].is_portable), key=str)

    def serving(self, function: RecordedFunction, call: RecordedCall) -> tuple[str, Serving]:
        """Return the name of the function that has a call, or is nearest, and what serves it."""
        named = self._named(function.call)
        every = {f.name: self._serving(f, function, call) for f in named}
        served = {name for name, serving in every.items() if serving.state.is_covered}
        # An overload runs only calls that the function itself has nothing for, larger or not.
        found = [(f.name, every[f.name]) for f in named if f.function.overload_of not in served]
        reason = function.problem or f"the package has no function that calls {function.call}"
        return best(found, reason)

    def compiled(self) -> Iterator[Compiled]:
        """Yield all signatures that are compiled for the targets that count."""
        for function in self.facts.functions:
            for signature in function.signatures:
                records = self._counted(signature.records)
                if records:
                    yield Compiled(
                        function.name,
                        _key(function, signature),
                        short_label(signature),
                        tuple(dict.fromkeys(str(record.target) for record in records)),
                        sum({r.blob.sha256: r.blob.size for r in records}.values()),
                    )

    def candidates(self, facts: FunctionFacts, signature: Signature) -> Iterator[Serving]:
        """Yield what has a signature: an executable, a larger one, or a portable form."""
        own = self._by_key.get((facts.name, signature.key()))
        bucket, waste = (own, 0.0) if own else self._bucket(facts, signature)
        if bucket and self._is_native(bucket):
            state = State.EXACT if own else State.PADDED
            yield Serving(state, _key(facts, bucket), short_label(bucket), waste)
        elif own and not self._lacking(own):
            yield Serving(State.PORTABLE, _key(facts, own), short_label(own), 0.0, (_PORTABLE,))
        elif any(map(_is_symbolic, facts.records)):
            yield Serving(State.PORTABLE, "", "any size", 0.0, (_PORTABLE,))

    def differences(self, facts: FunctionFacts, signature: Signature) -> tuple[str, ...]:
        """Return why nothing has a signature: what is nearest, and how it differs."""
        own = self._by_key.get((facts.name, signature.key()))
        own = own or self._bucket(facts, signature)[0]
        if own:
            lacking = ", ".join(map(self._host_text, self._not_native(own)))
            return (f"{short_label(own)} is compiled, but not for {lacking}",)
        self._compared += 1
        if self._compared > _MOST_COMPARED:
            return ()
        known = [
            CompiledSignature(short_label(s), s.records[0].signature, s.input_names)
            for s in facts.signatures
        ]
        return nearest_lines(signature, known)

    def _named(self, call: str) -> list[FunctionFacts]:
        return self._by_call.get(call, [])

    @cached_property
    def _by_call(self) -> dict[str, list[FunctionFacts]]:
        found: dict[str, list[FunctionFacts]] = {}
        for each in self.facts.functions:
            found.setdefault(each.function.call, []).append(each)
        return found

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], SignatureFacts]:
        return {(f.name, s.key): s for f in self.facts.functions for s in f.signatures}

    def _serving(
        self, facts: FunctionFacts, function: RecordedFunction, call: RecordedCall
    ) -> Serving:
        if facts.function.wrap != function.wrap:
            ours, theirs = (each or "jax.jit" for each in (facts.function.wrap, function.wrap))
            return Serving(State.MISSING, reasons=(f"compiled as {ours}, called as {theirs}",))
        try:
            signatures = [signature_of(facts.function, call)]
            if facts.function.references:
                signatures.append(signature_of(facts.function, call, with_references=True))
        except NoSignature as err:
            return Serving(State.MISSING, reasons=(str(err),))
        reasons: list[str] = []
        for serving in (s for each in signatures for s in self.candidates(facts, each)):
            problem = self._problem(facts, serving, call)
            if not problem:
                return serving
            reasons.append(problem)
        reasons = reasons or [*self.differences(facts, signatures[0])]
        reasons += [f"{a.name}: {a.problem}" for a in call.arguments if a.problem]
        return Serving(State.MISSING, reasons=tuple(dict.fromkeys(reasons)))

    def _bucket(
        self, facts: FunctionFacts, signature: Signature
    ) -> tuple[SignatureFacts | None, float]:
        """Return the signature that a call is padded to, and the part that is padding.

        It is the nearest that has any executable, on a host that none of them fits, too.
        """
        padding = facts.function.pad
        given = sizes_of(padding, signature.leaves) if padding else None
        if padding is None or not isinstance(given, tuple):
            return None, 0.0
        for bucket in buckets_for(padding, signature.leaves, given):
            larger = padded_signature(padding, signature, bucket)
            own = self._by_key.get((facts.name, larger.key()))
            if own:
                return own, _waste(padding, signature, bucket)
        return None, 0.0

    def _problem(self, facts: FunctionFacts, serving: Serving, call: RecordedCall) -> str:
        """Return why a signature does not serve a call in spite of its avals; empty if it does."""
        own = self._by_key.get((facts.name, serving.key.rpartition("\0")[2]))
        if own is None:
            return ""
        ours, theirs = own.records[0].requires.x64, _has_x64(call)
        if ours != theirs:
            return f"{serving.label}: compiled with jax_enable_x64={ours}, called with {theirs}"
        if setting := _other_option(own.records[0], call):
            return f"{serving.label}: {setting}"
        if not call.mesh:
            return ""
        calling = own.records[0].calling
        if dict(calling.mesh) != call.mesh:
            meshes = [_mesh_text(mesh) for mesh in (dict(calling.mesh), call.mesh)]
            return f"{serving.label}: compiled for {meshes[0]}, called over {meshes[1]}"
        pairs = zip(calling.in_specs, shardings_of(facts.function, call), strict=False)
        for number, (want, have) in enumerate(pairs):
            if have is not None and _plain_spec(have) != _plain_spec(want):
                name = dict(enumerate(own.input_names)).get(number, f"array {number}")
                return f"{serving.label}: {name}: compiled for {[*want]}, called with {have}"
        return ""

    def _lacking(self, signature: SignatureFacts) -> list[_Host]:
        """Return the targets that count for which a signature has neither executable nor form."""
        if any(record.target.is_portable for record in self._counted(signature.records)):
            return []
        return self._not_native(signature)

    def _is_native(self, signature: SignatureFacts) -> bool:
        """Return whether a signature has an executable for each target that counts."""
        return bool(self.targets) and not self._not_native(signature)

    def _not_native(self, signature: SignatureFacts) -> list[_Host]:
        having = set(map(_host, signature.records))
        return [host for host in self.targets if not any(_serves(one, host) for one in having)]

    def _host_text(self, host: _Host) -> str:
        target, jaxlib = host
        several = len({each for _, each in self.targets}) > 1
        return f"{target} with jaxlib {jaxlib}" if several else str(target)

    def _counted(self, records: Iterable[Record]) -> list[Record]:
        return [record for record in records if str(record.target).startswith(self._target)]


def _key(function: FunctionFacts, signature: SignatureFacts) -> str:
    return f"{function.name}\0{signature.key}"


def _is_symbolic(record: Record) -> bool:
    return isinstance(record.provenance.get("symbolic_leaves"), list)


def _host(record: Record) -> _Host:
    return record.target, record.requires.jaxlib


def _serves(having: _Host, wanted: _Host) -> bool:
    """Return whether an executable for a target runs where one for another would.

    A CPU runs what was compiled for a lower level.
    """
    one, other = having[0], wanted[0]
    if having[1] != wanted[1] or replace(one, detail="") != replace(other, detail=""):
        return False
    return checks(one.platform).runs(one.detail, other.detail)


def _has_x64(call: RecordedCall) -> bool:
    """Return whether a call was made with jax_enable_x64, without which no array has 64 bits."""
    leaves = (leaf for argument in call.arguments for leaf in argument.leaves)
    return call.config.get("jax_enable_x64") is True or any(leaf.needs_x64 for leaf in leaves)


def _other_option(record: Record, call: RecordedCall) -> str:
    """Return which option of jax gave a recorded call other numbers; empty if none did."""
    compiled = record.provenance.get(CONFIG, {})
    for name, default in NUMBER_OPTIONS.items():
        called = call.config.get(name, default)
        if compiled.get(name, called) != called:
            return f"compiled with {name}={compiled[name]}, called with {called}"
    return ""


def _waste(padding: Padding, signature: Signature, bucket: tuple[int, ...]) -> float:
    """Return the part of the padded arrays that is padding."""
    shapes = [aval.shape for aval in signature.leaves]
    given = sum(prod(shape) for axes, shape in zip(padding.leaves, shapes, strict=True) if axes)
    total = volume(padding.leaves, shapes, bucket)
    return 1.0 - given / total if total else 0.0


def _mesh_text(mesh: dict[str, int]) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in mesh.items())
    return f"the mesh {sizes}" if sizes else "one device"


def _plain_spec(spec: Sequence[Any]) -> list[Any]:
    """Return a PartitionSpec in one form: without what is not split at its end."""
    found = [[*axis] if isinstance(axis, tuple | list) else axis for axis in spec]
    found = [axis[0] if isinstance(axis, list) and len(axis) == 1 else axis for axis in found]
    while found and found[-1] in (None, []):
        found.pop()
    return found
