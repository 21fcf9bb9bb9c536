"""The rewriting of XLA's serialized program: CPU executables load faster and run the same code.

**What it is.** XLA:CPU serializes the optimized HLO module beside the machine code and the list
of thunks, which is what runs. Loading rebuilds that module three times and compares every thunk
with all others: nearly all the time of loading. The rewrite takes out of the module what no thunk
needs (`program`), and puts thunks into groups where that delays none of them (`grouping`, which
asks `memory_use` which memory each thunk uses). `rewrite` is the entry.

**What it relies on.** These bytes are private to XLA, and nothing promises their format. The
numbers of fields come from XLA's own .proto files, for the versions of jaxlib in `program.KNOWN`.
With any other jaxlib, and wherever a message has an unexpected field, an executable stays as it is.

**What is checked.** XLA loads each rewritten executable while it is built (`rewrite`). Where golden
outputs are computed, the rewritten executable and the plain one run on the same inputs, and all
output bytes must be equal. If a check fails, the plain executable goes into the wheel,
and the build prints a note.

**How to switch it off.** AOTBUILD_SHRINK=off in the environment of a build.
docs/decisions/15-thunk-rewrite.md says more.
"""
