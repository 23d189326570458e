"""Runs the official Python SDK against a real server and says `N passed, N failed`.

    MANTYX_BASE_URL=… MANTYX_API_KEY=… MANTYX_WORKSPACE_SLUG=demo python run.py [WORD…]

Every public function of every module in `cases/` is a case; coroutine functions are awaited.
With words, only the cases whose name contains one of them run. No framework: what a case
expects it asserts, and what an SDK cannot do the case says by raising `NotApplicable`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pkgutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator

import mantyx

import cases
from support.target import NotApplicable

#: A case that takes longer than this hangs. The slowest ones wait for the SDK's own pauses
#: before it reconnects, a few seconds in all.
SECONDS_PER_CASE = 60.0


def found_cases() -> Iterator[tuple[str, Callable[[], object]]]:
    for module_info in sorted(pkgutil.iter_modules(cases.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"cases.{module_info.name}")
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__
            if own and not name.startswith("_"):
                yield f"{module_info.name}.{name}", function


async def _bounded(function: Callable[[], object]) -> None:
    await asyncio.wait_for(function(), SECONDS_PER_CASE)


def _run(function: Callable[[], object]) -> None:
    if inspect.iscoroutinefunction(function):
        asyncio.run(_bounded(function))
    else:
        function()


def outcome_of(function: Callable[[], object]) -> BaseException | None:
    """What the case raised. It runs on a thread of its own, so that one that hangs is left
    behind and the others still get their turn."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            _run(function)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(SECONDS_PER_CASE + 5.0)
    if thread.is_alive():
        return TimeoutError(f"not done after {SECONDS_PER_CASE:.0f} s")
    return raised[0] if raised else None


def main(words: list[str]) -> int:
    print(f"mantyx-sdk {mantyx.__version__}, Python {sys.version.split()[0]}")
    passed = failed = 0
    for name, function in found_cases():
        if words and not any(word in name for word in words):
            continue
        begun = time.monotonic()
        error = outcome_of(function)
        took = time.monotonic() - begun
        if error is None:
            passed += 1
            print(f"ok      {name} ({took:.2f} s)")
        elif isinstance(error, NotApplicable):
            print(f"n/a     {name}: {error}")
        else:
            failed += 1
            print(f"FAILED  {name} ({took:.2f} s)")
            print("".join(traceback.format_exception(error)).rstrip())
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # A case that hangs holds threads of the SDK's pool, which would keep the interpreter alive.
    os._exit(code)
