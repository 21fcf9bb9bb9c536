"""What may be in the place of a file: a pipe, a folder, a device, a socket, a link to nothing.

Each function puts one there.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


def fifo(place: Path) -> None:
    os.mkfifo(place)


def linked_fifo(place: Path) -> None:
    os.mkfifo(place.with_name("pipe"))
    place.symlink_to("pipe")


def folder(place: Path) -> None:
    place.mkdir()


def zeros(place: Path) -> None:
    place.symlink_to("/dev/zero")


def nothing(place: Path) -> None:
    place.symlink_to("/dev/null")


def terminal(place: Path) -> None:
    place.symlink_to("/dev/ptmx")


def listener(place: Path) -> None:
    # The path of a socket has 107 characters at most.
    before = Path.cwd()
    os.chdir(place.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(before)


def endless(place: Path) -> None:
    place.symlink_to(place.name)


def nowhere(place: Path) -> None:
    place.symlink_to("missing")


SPECIAL = (fifo, linked_fifo, folder, zeros, nothing, terminal, listener, endless)
special = pytest.mark.parametrize("make", SPECIAL, ids=lambda make: make.__name__)
