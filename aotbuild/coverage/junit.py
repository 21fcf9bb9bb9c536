"""A comparison as JUnit XML, which CI shows: a suite for each function, a case for each signature.

The form is that of the schema of Jenkins' xUnit plugin (`testsuites/testsuite/testcase`), which
GitLab, Jenkins and Buildkite read.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from aotbuild.coverage.result import Called, Coverage, State
from aotbuild.coverage.text import call_line
from aotbuild.report.words import printable

_NAME = "aotbuild coverage"
# What tells it from results of tests.
BEGINS = re.compile(rf"<\?xml [^>]*>\s*<testsuites name=\"{_NAME}\"".encode())
# What XML 1.0 cannot hold, even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(coverage: Coverage) -> bytes:
    """Return the document, in UTF-8."""
    root = ET.Element("testsuites", name=_NAME)
    for function, called in coverage.functions.items():
        failed = [each for each in called if not each.state.is_covered]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_text(function),
            tests=str(len(called)),
            failures=str(len(failed)),
            errors="0",
            skipped="0",
        )
        for each in called:
            _case(suite, each)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: ET.Element, called: Called) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_text(called.function),
        name=_text(called.signature),
        time=f"{called.tally.seconds:.3f}",
    )
    file, _, line = called.place.rpartition(":")
    if file:
        case.set("file", _text(file))
        case.set("line", line)
    if called.state.is_covered:
        return
    word = "only a portable form" if called.state is State.PORTABLE else "not compiled"
    failure = ET.SubElement(case, "failure", message=word, type=str(called.state))
    failure.text = _text("\n".join((call_line(called), *called.serving.reasons)))


def _text(value: str) -> str:
    """Return text that XML can hold."""
    lines = (printable(line) for line in value.split("\n"))
    return _NOT_XML.sub("�", "\n".join(lines))
