"""OAuth: Authlib as the app that asks, and the SDK's own client for what follows."""

from __future__ import annotations

import httpx
from authlib.common.security import generate_token
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from mantyx import MantyxAuthError, MantyxOAuthClient, MantyxOAuthError, MantyxScopeError

from support.consent import CALLBACK, App, allow, person, registered
from support.target import BASE_URL, WORKSPACE, client, prompt, run

TOKEN_URL = f"{BASE_URL}/api/oauth/token"


def authlib_gets_refreshes_introspects_and_revokes_tokens():
    app = registered("runs:read", "runs:write", "mantyx.identity:read")
    with _authlib(app, "runs:read mantyx.identity:read") as session:
        token = _signed_in(session)
        assert token["access_token"].startswith("mantyx_at_"), token
        assert token["refresh_token"].startswith("mantyx_rt_"), token
        user = session.get(f"{BASE_URL}/api/oauth/userinfo").json()
        assert user["email"].endswith("@example.com"), user
        assert user["workspace"]["slug"] == WORKSPACE, user
        again = session.refresh_token(TOKEN_URL)
        assert again["refresh_token"] == token["refresh_token"], "refresh tokens do not rotate"
        assert again["access_token"] != token["access_token"]
        assert session.get(f"{BASE_URL}/api/oauth/userinfo").status_code == 200
        told = session.introspect_token(f"{BASE_URL}/api/oauth/introspect", token=again["access_token"])
        assert told.json()["active"] is True, told.text
        revoked = session.revoke_token(f"{BASE_URL}/api/oauth/revoke", token=token["refresh_token"])
        assert revoked.status_code == 200, revoked.text
        told = session.introspect_token(f"{BASE_URL}/api/oauth/introspect", token=again["access_token"])
        assert told.json() == {"active": False}, told.text


def authlib_finds_the_metadata_and_has_nothing_to_object():
    url = get_well_known_url(BASE_URL, external=True)
    metadata = AuthorizationServerMetadata(httpx.get(url, timeout=30.0).json())
    assert metadata.issuer == BASE_URL, metadata
    assert metadata.token_endpoint == TOKEN_URL, metadata
    # It insists on https in addresses, which a server under test does not have.
    for key in AuthorizationServerMetadata.REGISTRY_KEYS:
        if not key.endswith(("issuer", "endpoint", "uri")):
            getattr(metadata, f"validate_{key}")()


def authlib_gets_a_token_for_the_app_itself():
    app = registered("runs:read", "runs:write", "models:read", clientCredentials=True)
    with OAuth2Client(app.client_id, app.client_secret, scope="runs:write runs:read") as session:
        token = session.fetch_token(TOKEN_URL, grant_type="client_credentials")
    assert "refresh_token" not in token, token
    answer = run("say hello", mantyx=client(api_key=token["access_token"]))
    assert answer.text, answer


def the_sdk_runs_with_tokens_that_it_refreshes_itself():
    app = registered("runs:read", "runs:write")
    with _authlib(app, None) as session:
        token = _signed_in(session)
    with MantyxOAuthClient(
        client_id=app.client_id, client_secret=app.client_secret, base_url=BASE_URL
    ) as oauth:
        source = oauth.refresh_token_source(refresh_token=token["refresh_token"])
        answer = run(prompt("say with a token"), mantyx=client(api_key=None, token_source=source))
        assert answer.text, answer
        fresh = oauth.refresh(refresh_token=token["refresh_token"], scope=["runs:read"])
        assert fresh.refresh_token == token["refresh_token"]
        assert (fresh.scope, fresh.expires_in) == ("runs:read", 3600), fresh
        # An access token dies alone: the source gets itself another one when it is told 401.
        oauth.revoke(token=source())
        answer = run(prompt("say again"), mantyx=client(api_key=None, token_source=source))
        assert answer.text, answer
        oauth.revoke(token=token["refresh_token"])
        try:
            oauth.refresh(refresh_token=token["refresh_token"])
        except MantyxOAuthError as error:
            assert error.oauth_error == "invalid_grant", repr(error)
        else:
            raise AssertionError("a revoked refresh token was taken")
        try:
            run("say no", mantyx=client(api_key=fresh.access_token))
        except MantyxAuthError:
            pass
        else:
            raise AssertionError("a token outlived its grant")


def a_missing_scope_is_the_sdks_scope_error():
    app = registered("runs:read", clientCredentials=True)
    with OAuth2Client(app.client_id, app.client_secret) as session:
        token = session.fetch_token(TOKEN_URL, grant_type="client_credentials")
    try:
        run("say hello", mantyx=client(api_key=token["access_token"]))
    except MantyxScopeError as error:
        assert tuple(error.required_scopes) == ("runs:write",), repr(error)
    else:
        raise AssertionError("a run was started without runs:write")


def a_wrong_secret_is_the_sdks_oauth_error():
    app = registered("runs:read", clientCredentials=True)
    with MantyxOAuthClient(
        client_id=app.client_id, client_secret="mantyx_oas_wrong", base_url=BASE_URL
    ) as oauth:
        try:
            oauth.refresh(refresh_token="mantyx_rt_nothing")
        except MantyxOAuthError as error:
            assert (error.status, error.oauth_error) == (401, "invalid_client"), repr(error)
        else:
            raise AssertionError("a wrong secret was taken")


def _authlib(app: App, scope: str | None) -> OAuth2Client:
    return OAuth2Client(
        app.client_id,
        app.client_secret,
        scope=scope,
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
    )


def _signed_in(session: OAuth2Client) -> dict[str, str]:
    verifier = generate_token(48)
    url, state = session.create_authorization_url(
        f"{BASE_URL}/api/oauth/authorize", code_verifier=verifier
    )
    back = allow(url, person())
    return session.fetch_token(
        TOKEN_URL, authorization_response=back, state=state, code_verifier=verifier
    )
