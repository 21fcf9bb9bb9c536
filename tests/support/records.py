"""Records and functions of an index that nobody compiled."""

from __future__ import annotations

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob, Calling, Constant, CustomCall, Record, Requirements
from aotbuild.format.signature import Function, Signature, Static
from aotbuild.format.target import Target

HEADER = {"aotbuild": "0.1.0", "fallback": "none", "package": "p"}


def make_function(name: str = "f") -> Function:
    statics = (Static("causal", True), Static("k"))
    return Function(name, "p.m:f", ("x", "k"), ("x",), ("scale",), statics, ("x",))


def make_record(name: str = "f", batch: int = 1) -> Record:
    aval = Aval((batch, 2), "float32")
    tree = ["tuple", ["tuple", "*"], ["dict", ["scale"], "*"]]
    blob = Blob("pjrt", sha256_hex(b"code"), 4)
    return Record(
        function=name,
        signature=Signature(tree, (aval, Aval((), "float32", True)), (("causal", True), ("k", 3))),
        target=Target("cpu", "x86-64-v3", 2),
        blob=blob,
        requires=Requirements(
            ("cpu",), 2, 1, "x86-64-v3", "0.10.2", False, (CustomCall("lapack_sgetrf", "jax"),)
        ),
        calling=Calling(
            name,
            (Constant(Aval((2,), "bfloat16"), blob),),
            (0, 1, 2),
            (0,),
            (("d", ("a", "b")), ()),
            (aval,),
            (("d",),),
            ["list", "*"],
            (("d", 2), ("a", 1), ("b", 1)),
        ),
        analysis={"flops": 2.0},
        provenance={"jax": "0.10.2"},
    )


def small() -> bytes:
    return write_index(HEADER, [make_function()], [make_record(batch=b) for b in (1, 8)])
