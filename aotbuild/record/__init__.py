"""Watch a program: its calls become a manifest, or are checked; and the guard."""

from aotbuild.record.recorder import Recorder

__all__ = ["Recorder"]
