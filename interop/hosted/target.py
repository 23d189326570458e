"""The server under test: its agents and keys are made here, with nothing but the standard library."""

from __future__ import annotations

import json
import os
import urllib.request
from functools import cache
from importlib.metadata import version
from typing import Any


def setting(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise SystemExit(f"{name} is not set: it must name the server under test")
    return value


BASE_URL = setting("MANTYX_BASE_URL").rstrip("/")
WORKSPACE = setting("MANTYX_WORKSPACE_SLUG")
ADMIN_TOKEN = setting("RUNLOOM_ADMIN_TOKEN")

MCP_URL = f"{BASE_URL}/mcp"


def package(name: str) -> str:
    return f"{name} {version(name)}"


def admin(method: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"{BASE_URL}/api/admin/v1/workspaces/{WORKSPACE}{path}",
        data=json.dumps(body).encode(),
        method=method,
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

AGENTS: dict[str, dict[str, Any]] = {
    "support": {
        "name": "Support",
        "description": "Answers support questions.",
        "systemPrompt": "You answer support questions.",
        "modelId": "platform:demo",
        "skills": [{"name": "Refunds", "description": "When money is asked back.", "text": "Ask for the order."}],
    },
    "shaped": {
        "systemPrompt": "You name cities.",
        "modelId": "platform:demo",
        "outputSchema": {"name": "city", "schema": CITY},
    },
    "clients-tools": {
        "systemPrompt": "You read files.",
        "modelId": "platform:demo",
        "tools": [{"kind": "local", "name": "read_file"}],
    },
}


@cache
def prepared() -> None:
    for slug, agent in AGENTS.items():
        admin("PUT", f"/agents/{slug}", agent)


@cache
def key(usage: str, *agents: str) -> str:
    """A new key for a door, for these agents only when some are named."""
    prepared()
    made = admin("POST", "/keys", {"usage": usage, "agentIds": list(agents)})
    return made["key"]


def end_of(word: str) -> str:
    """How the run ended whose prompt has this word; waits for its end."""
    runs = _developer("/agent-runs?limit=200")["runs"]
    [run] = [run for run in runs if word in run["inputPreview"]]
    request = _request(f"/agent-runs/{run['id']}/stream")
    with urllib.request.urlopen(request, timeout=30) as stream:
        stream.read()
    return _developer(f"/agent-runs/{run['id']}")["status"]


def _developer(path: str) -> Any:
    with urllib.request.urlopen(_request(path), timeout=30) as answer:
        return json.load(answer)


def _request(path: str) -> urllib.request.Request:
    headers = {"Authorization": f"Bearer {setting('MANTYX_API_KEY')}"}
    return urllib.request.Request(f"{BASE_URL}/api/v1/workspaces/{WORKSPACE}{path}", headers=headers)


def agent_url(slug: str) -> str:
    return f"{BASE_URL}/api/a2a/{WORKSPACE}/agents/{slug}"
