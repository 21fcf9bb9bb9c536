"""`aotbuild diff`: what changed between two wheels, folders or installed packages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import JSON, UsageError, argument, command, flag
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output, write
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.report.diff import Diff
    from aotbuild.report.facts import PackageFacts

DIFFERENT = 1
# Of a SHA-256.
_DIGITS = 12
# A comment that begins with it can be found again, and replaced.
_MARK = "<!-- aotbuild diff -->"


@command(
    "Print what changed between two wheels.",
    argument("old", metavar="OLD"),
    argument("new", metavar="NEW"),
    JSON,
    flag("--exit-code", help="Exit with 1 where they differ, as git diff does."),
    flag("--markdown", help="Print Markdown, for a comment on a change."),
)
def diff(
    output: Output,
    old: str,
    new: str,
    as_json: bool,
    exit_code: bool,
    markdown: bool,
) -> int | None:
    """Print what changed from OLD to NEW: wheels, _aot folders or installed packages.

    A folder stands for the one wheel in it; of several, for the one with the name and the tags of
    the other side's. Compares the digest of every blob, and imports neither package nor jax.
    """
    from aotbuild.report.diff import diff as compare
    from aotbuild.report.diff_words import diff_document

    if as_json and markdown:
        msg = "--json and --markdown exclude each other"
        raise UsageError(msg)
    output.as_json, output.is_quiet = as_json, markdown
    old, new = chosen_wheels(old, new)
    before, after = _facts(old), _facts(new)
    found = compare(before, after)
    if as_json:
        output.document.update(diff_document(found, before, after))
    for word, place, facts in (("old", old, before), ("new", new, after)):
        output.text(f"{word}: {_identity(place, facts)}")
    output.text()
    _print(output, found)
    if markdown:
        title = f"{after.name}: {_short(old)} → {_short(new)}"
        write(f"{_MARK}\n{output.markdown.render(title)}".rstrip("\n"))
    return DIFFERENT if exit_code and not found.is_empty else None


def chosen_wheels(old: str, new: str) -> tuple[str, str]:
    """Return the places to compare, where folders stand for wheels in them.

    UsageError if it is not clear which wheels belong together.
    """
    before, after = _wheels(old), _wheels(new)
    pairs = [(one, other) for one in before for other in after]
    by_tags = [(a, b) for a, b in pairs if _project_and_tags(a) == _project_and_tags(b)]
    by_project = [(a, b) for a, b in pairs if _project(a) == _project(b)]
    for found in (pairs, by_tags, by_project):
        if len(found) == 1:
            return found[0]
    msg = "\n".join(
        (
            "it is not clear which wheels to compare",
            *(f"  OLD has {wheel}" for wheel in before),
            *(f"  NEW has {wheel}" for wheel in after),
            "Name one wheel as OLD and one as NEW.",
        )
    )
    raise UsageError(msg)


def _wheels(place: str) -> list[str]:
    """Return the wheels in a folder; the place itself, if it is something else."""
    path = Path(place)
    is_package = any((folder / INDEX_NAME).is_file() for folder in (path, path / FOLDER_NAME))
    return [place] if is_package else sorted(map(str, path.glob("*.whl"))) or [place]


def _project_and_tags(wheel: str) -> tuple[str, ...]:
    """Return a wheel's project, and its tags, without the version."""
    return (_project(wheel), *Path(wheel).stem.split("-")[-3:])


def _project(wheel: str) -> str:
    return Path(wheel).name.partition("-")[0].lower()


def _facts(place: str) -> PackageFacts:
    from aotbuild.report.document import check_digests, damages
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.locate import locate

    with closing(locate(place_of(place))) as source:
        facts = read_facts(source)
        if bad := damages(check_digests(source, facts.blobs)):
            raise bad[0]
        return facts


def _identity(place: str, facts: PackageFacts) -> str:
    """Return what tells a package from others: its place, and the digests of its parts."""
    from aotbuild.format.sources import read_sources

    named = [f"index {facts.digest.removeprefix('sha256:')[:_DIGITS]}"]
    try:
        sources = read_sources(facts.header)
    except ValueError:  # `aotbuild verify` says what is wrong
        sources = None
    if sources and sources.manifest:
        digest = sources.files[sources.manifest][:_DIGITS]
        named.append(f"{printable(sources.manifest)} {digest}")
    return f"{printable(_short(place))} ({', '.join(named)})"


def _short(place: str) -> str:
    """Return what tells places apart: a wheel's name, or an _aot folder with the one above."""
    path = Path(place)
    return "/".join(path.parts[-2:]) if path.name == FOLDER_NAME else path.name


def _print(output: Output, found: Diff) -> None:
    from aotbuild.report.diff_words import COST_HEADERS, cost_rows, diff_lines

    for line in diff_lines(found):
        output.text(line)
    if rows := cost_rows(found):
        output.text()
        output.table(COST_HEADERS, rows)
    if found.is_empty:
        output.text("no difference")
