"""An administrator who registers an app and a person, and that person at a browser."""

from __future__ import annotations

import html
import re
import uuid
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx

from support.target import BASE_URL, WORKSPACE, setting

CALLBACK = "http://127.0.0.1:9/callback"
PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class App:
    """A registered app."""

    client_id: str
    client_secret: str


def registered(*scopes: str, **fields: object) -> App:
    """A new app of the workspace."""
    body = {"scopes": list(scopes), "redirectUris": [CALLBACK], "name": "Interop", **fields}
    made = _admin("POST", f"/workspaces/{WORKSPACE}/oauth-apps", body)
    return App(made["clientId"], made["clientSecret"])


def person() -> str:
    """The address of a new person of the workspace."""
    email = f"{uuid.uuid4().hex}@example.com"
    _admin("PUT", f"/users/{email}", {"password": PASSWORD, "workspaces": [WORKSPACE]})
    return email


def allow(url: str, email: str) -> str:
    """Goes to `url` as a browser does, signs in, allows, and says where it was sent."""
    with httpx.Client(timeout=30.0) as browser:
        page = browser.get(url)
        page = _submit(browser, page, step="sign_in", email=email, password=PASSWORD)
        assert page.status_code == 303, page.text
        page = browser.get(urljoin(BASE_URL, page.headers["location"]))
        page = _submit(browser, page, step="allow", workspace=WORKSPACE)
        assert page.status_code == 303, page.text
        return page.headers["location"]


def _submit(browser: httpx.Client, page: httpx.Response, **fields: str) -> httpx.Response:
    assert page.status_code == 200, page.text
    form = re.search(r'<form method="post" action="([^"]+)"><input [^>]*value="([^"]+)"', page.text)
    assert form, page.text
    action, token = (html.unescape(text) for text in form.groups())
    return browser.post(urljoin(BASE_URL, action), data={"form": token, **fields})


def _admin(method: str, path: str, body: dict[str, object]) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {setting('RUNLOOM_ADMIN_TOKEN')}"}
    url = f"{BASE_URL}/api/admin/v1{path}"
    answer = httpx.request(method, url, json=body, headers=headers, timeout=30.0)
    assert answer.is_success, answer.text
    return answer.json()
