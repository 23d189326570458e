"""Runs official clients of A2A and MCP against a real server and says `N passed, N failed`.

    MANTYX_BASE_URL=… MANTYX_WORKSPACE_SLUG=demo RUNLOOM_ADMIN_TOKEN=… python run.py a2a_0_3|a2a_1_0|mcp_1|mcp_newest

Every public coroutine function of the named module is a case. No framework: what a case expects it asserts.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import time
import traceback

#: A case that takes longer than this hangs.
SECONDS_PER_CASE = 60.0


def outcome_of(function) -> BaseException | None:
    async def bounded() -> None:
        await asyncio.wait_for(function(), SECONDS_PER_CASE)

    try:
        asyncio.run(bounded())
    except BaseException as error:
        return error
    return None


def main(name: str) -> int:
    module = importlib.import_module(name)
    print(f"{name}: {module.PACKAGE}, Python {sys.version.split()[0]}")
    passed = failed = 0
    for case, function in list(vars(module).items()):
        own = inspect.iscoroutinefunction(function) and function.__module__ == name
        if not own or case.startswith("_"):
            continue
        begun = time.monotonic()
        error = outcome_of(function)
        took = time.monotonic() - begun
        if error is None:
            passed += 1
            print(f"ok      {name}.{case} ({took:.2f} s)")
        else:
            failed += 1
            print(f"FAILED  {name}.{case} ({took:.2f} s)")
            print("".join(traceback.format_exception(error)).rstrip())
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
