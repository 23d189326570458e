"""Validates recorded AG-UI events with the types of the PyPI package and says `N passed, N failed`.

    python validate.py RECORD

RECORD has one event per line. Every kind of event that was recorded is a case. An event passes when the package
accepts it, knows every one of its keys, and writes it back as it came.
"""

from __future__ import annotations

import collections
import json
import sys
from importlib.metadata import version

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

ADAPTER = TypeAdapter(Event)

#: Without these the record shows too little.
NEEDED = {
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "MESSAGES_SNAPSHOT",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "REASONING_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_END",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
}


def unknown_keys(value: object) -> list[str]:
    if isinstance(value, BaseModel):
        own = list(value.model_extra or {})
        return own + [key for name in type(value).model_fields for key in unknown_keys(getattr(value, name))]
    if isinstance(value, list):
        return [key for entry in value for key in unknown_keys(entry)]
    return []


def problem_of(line: str) -> str | None:
    raw = json.loads(line)
    event = ADAPTER.validate_python(raw)
    unknown = unknown_keys(event)
    if unknown:
        return f"unknown keys {unknown}"
    back = json.loads(event.model_dump_json(by_alias=True))
    return None if back == raw else f"comes back as {back}"


def main(record: str) -> int:
    print(f"ag-ui-protocol {version('ag-ui-protocol')}, Python {sys.version.split()[0]}")
    problems: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    with open(record, encoding="utf-8") as lines:
        for line in lines:
            kind = json.loads(line)["type"]
            counts[kind] += 1
            try:
                problem = problem_of(line)
            except ValueError as error:
                problem = str(error)
            if problem:
                problems.setdefault(kind, f"{problem}\n{line}")
    for kind in NEEDED - counts.keys():
        problems[kind] = "was never sent"
    for kind in sorted(counts.keys() | NEEDED):
        if kind in problems:
            print(f"FAILED  {kind}\n{problems[kind]}")
        else:
            print(f"ok      {kind} ({counts[kind]} events)")
    total = len(counts.keys() | NEEDED)
    print(f"{total - len(problems)} passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
