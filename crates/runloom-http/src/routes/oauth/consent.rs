//! The steps of the consent flow: sign in, choose a workspace, allow or deny.
//!
//! The authorisation request stays in the query and is checked at every step; the server keeps no state between
//! steps. A posted form must carry the token that belongs to the browser's signed cookie and to the request.

use axum::extract::{RawQuery, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use runloom_ports::store::{UserRow, WorkspaceRow};
use runloom_service::error::{Error, OAuthFault};
use runloom_service::oauth::{Asked, Authorization, LOGIN_SESSION_LIFETIME, LoginSession};
use url::form_urlencoded;

use super::{AUTHORIZE, page};
use crate::app::App;
use crate::error::Refusal;
use crate::extract::Form;
use crate::html_page::sealed;

/// Maximum length of the query.
const QUERY_MAX_CHARS: usize = 8 * 1024;

/// Result of the pages; errors are shown as a page.
type Shown = Result<Response, Refusal>;

/// `GET`: shows the next page.
pub(super) async fn show(State(app): State<App>, query: RawQuery, headers: HeaderMap) -> Response {
    let visit = Visit::of(app, query, &headers);
    match visit.show().await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

/// `POST`: handles a form.
pub(super) async fn answer(
    State(app): State<App>,
    query: RawQuery,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let visit = Visit::of(app, query, &headers);
    match visit.answer(&form).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

/// One request of a browser.
struct Visit {
    app: App,
    query: String,
    session: Option<LoginSession>,
}

impl From<ConsentError> for Refusal {
    fn from(error: ConsentError) -> Self {
        Self::Page(error.0)
    }
}

/// Shows an error of the use case as a page.
struct ConsentError(Error);

impl From<Error> for ConsentError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// The next page, or a redirect.
enum Next {
    Ask(Box<Authorization>),
    Go(Response),
}

impl Visit {
    fn of(app: App, RawQuery(query): RawQuery, headers: &HeaderMap) -> Self {
        let now = app.service.clock().now();
        let name = cookie_name(&app);
        let session =
            cookie(headers, name).and_then(|text| app.service.oauth().login_session(text, now));
        Self {
            query: query.unwrap_or_default(),
            session,
            app,
        }
    }

    async fn show(self) -> Shown {
        let asked = match self.asked().await? {
            Next::Ask(asked) => asked,
            Next::Go(response) => return Ok(response),
        };
        if let Some((session, person)) = self.user().await? {
            return self.choose(&asked, &session, &person, None).await;
        }
        self.sign_in_page(&asked, None)
    }

    async fn answer(self, form: &Form) -> Shown {
        let asked = match self.asked().await? {
            Next::Ask(asked) => asked,
            Next::Go(response) => return Ok(response),
        };
        let own = |session: &&LoginSession| {
            let token = form.get("form").unwrap_or_default();
            self.oauth().is_own_form(session, &self.query, token)
        };
        let Some(session) = self.session.as_ref().filter(own) else {
            let message = "This page was open for too long, or your browser does not keep cookies. Go back to the app and begin again.";
            return Err(Refusal::Page(Error::Forbidden {
                message: message.to_owned(),
            }));
        };
        match form.get("step") {
            Some("deny") => Ok(redirect(&asked.denied(self.issuer()))?),
            Some("sign_in") => self.sign_in(&asked, form).await,
            Some("sign_out") => self.again(None),
            step => {
                let Some((_, person)) = self.user().await? else {
                    return self.again(None);
                };
                let workspace = form.get("workspace").unwrap_or_default();
                match step {
                    Some("workspace") => {
                        self.choose(&asked, session, &person, Some(workspace)).await
                    }
                    Some("allow") => self.allow(&asked, &person, (workspace, form)).await,
                    _ => Err(Refusal::Page(
                        OAuthFault::InvalidRequest.because("The form is incomplete"),
                    )),
                }
            }
        }
    }

    /// The authorisation request. An unknown app or redirect URI is an error page, never a redirect.
    async fn asked(&self) -> Result<Next, Refusal> {
        if self.query.len() > QUERY_MAX_CHARS {
            let error = OAuthFault::InvalidRequest.because("The request is too long");
            return Err(Refusal::Page(error));
        }
        let pairs: Vec<_> = form_urlencoded::parse(self.query.as_bytes())
            .into_owned()
            .collect();
        let asked = self.oauth().authorization(&pairs, self.issuer());
        match asked.await.map_err(ConsentError)? {
            Asked::Well(asked) => Ok(Next::Ask(asked)),
            Asked::Badly(back) => Ok(Next::Go(redirect(&back)?)),
        }
    }

    async fn user(&self) -> Result<Option<(LoginSession, UserRow)>, Refusal> {
        let Some(session) = self.session.clone().filter(LoginSession::is_signed_in) else {
            return Ok(None);
        };
        let person = self
            .oauth()
            .signed_in_user(&session)
            .await
            .map_err(ConsentError)?;
        Ok(person.map(|person| (session, person)))
    }

    fn sign_in_page(&self, asked: &Authorization, tried: Option<&str>) -> Shown {
        // Keeps the cookie, so that a form in another tab stays valid.
        if let Some(session) = self
            .session
            .as_ref()
            .filter(|session| !session.is_signed_in())
        {
            return Ok(page::sign_in(&self.form(asked, session), tried));
        }
        let now = self.app.service.clock().now();
        let (session, cookie) = self
            .oauth()
            .new_login_session(None, now)
            .map_err(ConsentError)?;
        let page = page::sign_in(&self.form(asked, &session), tried);
        Ok(self.with_cookie(page, &cookie))
    }

    async fn sign_in(&self, asked: &Authorization, form: &Form) -> Shown {
        let email = form.get("email").unwrap_or_default();
        let password = form.get("password").unwrap_or_default();
        let service = &self.app.service;
        let now = service.clock().now();
        let person = self
            .oauth()
            .sign_in(service.rates(), (email, password), now)
            .await
            .map_err(ConsentError)?;
        match person {
            Some(person) => self.again(Some(&person)),
            None => {
                let tried: String = email.chars().take(254).collect();
                self.sign_in_page(asked, Some(&tried))
            }
        }
    }

    /// The same request with another login session.
    fn again(&self, person: Option<&UserRow>) -> Shown {
        let now = self.app.service.clock().now();
        let (_, cookie) = self
            .oauth()
            .new_login_session(person, now)
            .map_err(ConsentError)?;
        let back = redirect(&self.here())?;
        Ok(self.with_cookie(back, &cookie))
    }

    /// The choice of a workspace if there are several, else the consent page.
    async fn choose(
        &self,
        asked: &Authorization,
        session: &LoginSession,
        person: &UserRow,
        chosen: Option<&str>,
    ) -> Shown {
        let places = asked.places(person);
        let form = self.form(asked, session);
        let place: Option<&WorkspaceRow> = match (places.as_slice(), chosen) {
            ([], _) => return Ok(page::no_workspace(&form, person)),
            ([only], None) => Some(only),
            (places, chosen) => places
                .iter()
                .copied()
                .find(|place| chosen == Some(place.slug.as_str())),
        };
        let Some(place) = place else {
            return Ok(page::workspaces(&form, person, &places));
        };
        let agents = self
            .oauth()
            .agent_choices(place)
            .await
            .map_err(ConsentError)?;
        Ok(page::consent(&form, person, place, &agents))
    }

    async fn allow(
        &self,
        asked: &Authorization,
        person: &UserRow,
        (workspace, form): (&str, &Form),
    ) -> Shown {
        let agents = (form.get("agents") == Some("some")).then(|| form.all("agent"));
        let service = &self.app.service;
        let counted = (service.rates(), service.clock().now());
        let approved = self
            .oauth()
            .approve(asked, person, (workspace, agents), counted)
            .await;
        match approved {
            Ok(code) => Ok(redirect(&asked.approved(&code, self.issuer()))?),
            Err(error) => Err(Refusal::Page(error)),
        }
    }

    fn form<'visit>(
        &'visit self,
        asked: &'visit Authorization,
        session: &LoginSession,
    ) -> page::Ask<'visit> {
        page::Ask {
            asked,
            action: self.here(),
            token: self.oauth().form_token(session, &self.query),
        }
    }

    fn with_cookie(&self, mut response: Response, text: &str) -> Response {
        let age = LOGIN_SESSION_LIFETIME.as_secs();
        let name = cookie_name(&self.app);
        // Only this host can set a cookie with this prefix.
        let path = if name.starts_with("__Host-") {
            "/; Secure".to_owned()
        } else {
            format!("{}/api/oauth", self.prefix())
        };
        let cookie = format!("{name}={text}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    fn oauth(&self) -> &runloom_service::oauth::OAuthService {
        self.app.service.oauth()
    }

    /// The URL of this request as the browser knows it.
    fn here(&self) -> String {
        format!("{}{AUTHORIZE}?{}", self.prefix(), self.query)
    }

    /// The path prefix of `public_url`, which a proxy removes before this server sees the request.
    fn prefix(&self) -> &str {
        let rest = self.issuer().split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/')
            .map_or("", |at| rest[at..].trim_end_matches('/'))
    }

    fn issuer(&self) -> &str {
        &self.app.settings.issuer
    }
}

fn cookie_name(app: &App) -> &'static str {
    if app.settings.issuer.starts_with("https://") {
        "__Host-runloom_seat"
    } else {
        "runloom_seat"
    }
}

fn cookie<'headers>(headers: &'headers HeaderMap, name: &str) -> Option<&'headers str> {
    let all = headers.get_all(COOKIE).into_iter();
    let pairs = all.filter_map(|value| value.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// Redirects a browser. Targets are registered URIs with an encoded query.
fn redirect(to: &str) -> Result<Response, Refusal> {
    // The query of a request can contain bytes that a header cannot.
    if HeaderValue::from_str(to).is_err() {
        let error = OAuthFault::InvalidRequest.because("The request is malformed");
        return Err(Refusal::Page(error));
    }
    Ok(sealed(Redirect::to(to).into_response(), None))
}
