"""What the checks of all vendors share: strict types from TypedDicts, the committed files, the verdict."""

import json
import sys
import typing
from pathlib import Path

import typing_extensions
from pydantic import ConfigDict, TypeAdapter

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def forbid_extra(kind, seen=None):
    """Makes a TypedDict, and every TypedDict inside it, refuse unknown keys.

    The SDKs' request types are plain TypedDicts, which pydantic reads with unknown keys allowed.
    """
    seen = seen if seen is not None else set()
    if id(kind) in seen:
        return kind
    seen.add(id(kind))
    for part in typing.get_args(kind):
        forbid_extra(part, seen)
    if typing_extensions.is_typeddict(kind):
        kind.__pydantic_config__ = ConfigDict(extra="forbid")
        module = vars(sys.modules[kind.__module__])
        for hint in typing_extensions.get_type_hints(kind, module, include_extras=True).values():
            forbid_extra(hint, seen)
    return kind


def strict(kind):
    """An adapter for a request type that refuses what the vendor does not document."""
    return TypeAdapter(forbid_extra(kind))


def requests(folder, kind):
    """The committed requests of one provider kind: (path, the request)."""
    paths = sorted((FIXTURES / folder / "requests" / kind).glob("*.json"))
    for path in paths:
        yield path, json.loads(path.read_text())


def frames(path):
    """The data of the frames of a committed stream."""
    for line in path.read_text().split("\n"):
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def present(value):
    """A value without what is null in it."""
    if isinstance(value, dict):
        return {key: present(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [present(inner) for inner in value]
    return value


def meaning(text):
    """What a stream says, line by line. Every release of an SDK may write more fields that are null: they say nothing."""
    for line in text.split("\n"):
        field, separator, data = line.partition(": ")
        if field == "data" and data.startswith("{"):
            yield field, present(json.loads(data))
        else:
            yield field, separator + data


class Verdict:
    """Collects what differs, and ends the script."""

    def __init__(self, write):
        self.write = write
        self.checked = 0
        self.problems = []

    def check(self, what, judge):
        """Counts one check; a raised exception is a problem."""
        self.checked += 1
        try:
            judge()
        except Exception as problem:  # the judge is a vendor's code: anything may come out of it
            self.problems.append(f"{what}: {problem}")

    def stream(self, path, text):
        """A stream that the SDK wrote must say what the committed one says."""
        self.checked += 1
        if self.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or list(meaning(path.read_text())) != list(meaning(text)):
            self.problems.append(f"{path.name}: the SDK writes another stream; run with --write and look at the difference")

    def end(self):
        for problem in self.problems:
            print(problem, file=sys.stderr)
        print(f"{self.checked} checks, {len(self.problems)} problems")
        sys.exit(1 if self.problems or not self.checked else 0)
