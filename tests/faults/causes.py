"""What once broke aotbuild, found by a thousand attacks: `@pytest.mark.cause(number)`."""

from __future__ import annotations

CAUSES = {
    3: "SIGTERM leaves temporary folders, and wheels ship them",
    6: "plan runs code of requirements that are sources",
    7: "the store fails on damage that it promises to heal",
    8: "compilers outlive a build that was killed",
    10: "kill -9 between two renames leaves no package",
    11: "Ctrl-C while a wheel is packed leaves files in TMPDIR",
    16: "a FIFO in the place of a wheel, manifest or GPU file",
    20: "output that cannot be written is a traceback",
    23: "user code imitates the protocol of compilers, or leaves children",
    24: "a locale without UTF-8 and a path beyond ASCII",
    25: "messages that name the wrong remedy",
    26: "a manifest quotes files of the machine",
    28: "a mesh of 100 million devices takes gigabytes",
    30: "an output replaces a device, a link or an input",
    31: "Ctrl-C while a command imports is a traceback",
    34: "a second SIGTERM ends what cleans up after the first",
}
