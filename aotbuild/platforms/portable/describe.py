"""Portable targets: one artifact for several platforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from aotbuild.format.target import HOST, PORTABLE, Target
from aotbuild.platforms.building import BuildMachine, Description, Hardware, Request, description
from aotbuild.platforms.options import Model


class PortableOptions(Model):
    """StableHLO that is compiled where it runs."""

    platforms: list[Literal["cpu", "cuda", "rocm", "tpu"]] = Field(
        default=["cpu", "cuda", "tpu"], description="Platforms it is lowered for"
    )


class Portable(Description):
    """See `Description`."""

    options = PortableOptions
    summary = "Portable StableHLO"
    aliases = ("stablehlo", "export", "any")
    # It is lowered for these platforms, too.
    hints = description(HOST).hints

    def parts(self, request: Request) -> Sequence[str]:
        return list(request.options.platforms)

    def expand(
        self, request: Request, devices: int, _: BuildMachine
    ) -> Iterator[tuple[Target, Hardware]]:
        detail = ",".join(sorted(request.options.platforms))
        yield Target(PORTABLE, detail, devices), Hardware()


PLATFORM = Portable()
