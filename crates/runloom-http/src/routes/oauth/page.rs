//! The pages of the consent flow: sign in, choose a workspace, allow or deny.

use std::fmt::{self, Write as _};

use axum::response::Response;
use runloom_ports::store::{UserRow, WorkspaceRow};
use runloom_protocol::scope::Scope;
use runloom_service::oauth::{AgentChoice, Authorization};
use url::Url;

use crate::html_page::{Text, html, sealed};

/// Scopes that can be limited to some agents.
const WITH_AGENTS: [Scope; 7] = [
    Scope::AgentsRead,
    Scope::AgentsInvoke,
    Scope::RunsWrite,
    Scope::SessionsWrite,
    Scope::A2aDiscovery,
    Scope::A2aInvoke,
    Scope::McpConnect,
];

/// What every form of an authorisation request needs.
pub(super) struct Ask<'visit> {
    pub(super) asked: &'visit Authorization,
    /// The target of forms.
    pub(super) action: String,
    /// The anti-forgery token of forms.
    pub(super) token: String,
}

impl Ask<'_> {
    fn app(&self) -> Text<'_> {
        Text(&self.asked.app.name)
    }

    /// A form with this content.
    fn form(&self, inside: impl fmt::Display) -> String {
        let (action, token) = (Text(&self.action), Text(&self.token));
        format!(
            r#"<form method="post" action="{action}"><input type="hidden" name="form" value="{token}">{inside}</form>"#
        )
    }

    fn foot(&self, person: &UserRow) -> String {
        let email = Text(&person.email);
        let out =
            self.form(r#"<button class="link" name="step" value="sign_out">Not you?</button>"#);
        format!(r#"<div class="who"><span>Authenticated in as {email}</span>{out}</div>"#)
    }

    fn page(&self, title: &str, body: &str) -> Response {
        let letter = self.asked.app.name.chars().find(|c| c.is_alphanumeric());
        let letter = letter.unwrap_or('•').to_uppercase().to_string();
        let mark = format!(
            r#"<div class="mark" aria-hidden="true">{}</div>"#,
            Text(&letter)
        );
        sealed(
            html(title, &format!("{mark}{body}")),
            Some(&self.asked.redirect_uri),
        )
    }
}

/// The sign-in page. `tried` is the address of a failed attempt.
pub(super) fn sign_in(ask: &Ask<'_>, tried: Option<&str>) -> Response {
    let complaint = match tried {
        Some(_) => r#"<p class="bad" role="alert">The address or the password is wrong.</p>"#,
        None => "",
    };
    let email = Text(tried.unwrap_or_default());
    let fields = format!(
        r#"<label class="field">E-mail<input name="email" type="email" autocomplete="username" maxlength="254" required value="{email}"></label>
<label class="field">Password<input name="password" type="password" autocomplete="current-password" maxlength="256" required></label>
<div class="buttons"><button class="main" name="step" value="sign_in">Sign in</button></div>"#
    );
    let (app, form, cancel) = (ask.app(), ask.form(fields), cancel(ask));
    let body = format!(
        r#"<h1>Sign in</h1><p class="soft">to go on to <strong>{app}</strong></p>{complaint}{form}{cancel}"#
    );
    ask.page("Sign in", &body)
}

/// The choice of a workspace.
pub(super) fn workspaces(ask: &Ask<'_>, person: &UserRow, places: &[&WorkspaceRow]) -> Response {
    let mut choices = String::new();
    for (index, place) in places.iter().enumerate() {
        let checked = if index == 0 { " checked" } else { "" };
        let (slug, name) = (Text(&place.slug), Text(&place.name));
        let _ = write!(
            choices,
            r#"<label class="pick"><input type="radio" name="workspace" value="{slug}"{checked}><span>{name} <code>{slug}</code></span></label>"#
        );
    }
    let fields = format!(
        r#"{choices}<div class="buttons"><button class="main" name="step" value="workspace">Continue</button></div>"#
    );
    let (app, form, cancel, foot) = (ask.app(), ask.form(fields), cancel(ask), ask.foot(person));
    let body = format!(
        r#"<h1>Choose a workspace</h1><p class="soft">in which <strong>{app}</strong> may work</p>{form}{cancel}{foot}"#
    );
    ask.page("Choose a workspace", &body)
}

/// The consent page.
pub(super) fn consent(
    ask: &Ask<'_>,
    person: &UserRow,
    place: &WorkspaceRow,
    agents: &[AgentChoice],
) -> Response {
    let mut scopes = String::new();
    for scope in ask.asked.scopes.iter() {
        let plainly = scope.plainly();
        let _ = write!(scopes, "<li>{plainly}<br><code>{scope}</code></li>");
    }
    let asks = |scope: &Scope| ask.asked.scopes.has(*scope);
    let agents = if WITH_AGENTS.iter().any(asks) {
        choose_agents(agents, asks)
    } else {
        String::new()
    };
    let slug = Text(&place.slug);
    let fields = format!(
        r#"<input type="hidden" name="workspace" value="{slug}"><h2>It will be able to</h2><ul class="scopes">{scopes}</ul>{agents}
<div class="buttons"><button name="step" value="deny">Deny</button><button class="main" name="step" value="allow">Allow</button></div>"#
    );
    let (app, name) = (ask.app(), Text(&place.name));
    let (form, foot) = (ask.form(fields), ask.foot(person));
    let destination = destination(&ask.asked.redirect_uri);
    let to = Text(&destination);
    let body = format!(
        r#"<h1>Allow {app}?</h1><p class="soft">It asks to work in the workspace <strong>{name}</strong> in your name, until an administrator takes this back.</p>
{form}<p class="to">You will be sent to {to}</p>{foot}"#
    );
    ask.page("Allow access", &body)
}

/// The page of a user who has no workspace for this app.
pub(super) fn no_workspace(ask: &Ask<'_>, person: &UserRow) -> Response {
    let app = ask.app();
    let why = if ask.asked.app.public {
        "You belong to no workspace in which apps can be used."
    } else {
        "It is for the people of one workspace only, and you are not one of them, or apps are switched off there."
    };
    let deny =
        ask.form(r#"<div class="buttons"><button class="main" name="step" value="deny">Back to the app</button></div>"#);
    let foot = ask.foot(person);
    let body = format!("<h1>You cannot use {app}</h1><p>{why}</p>{deny}{foot}");
    ask.page("No access", &body)
}

/// The choice of agents. `asks` tells which scopes the app requests; a note names those that agents do not limit.
fn choose_agents(agents: &[AgentChoice], asks: impl Fn(&Scope) -> bool) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let mut choices = String::new();
    for agent in agents {
        let (id, name, slug) = (Text(&agent.id), Text(&agent.name), Text(&agent.slug));
        let _ = write!(
            choices,
            r#"<label class="pick"><input type="checkbox" name="agent" value="{id}"><span>{name} <code>{slug}</code></span></label>"#
        );
    }
    let any = |scopes: [Scope; 2]| scopes.iter().any(&asks);
    let mut note = String::new();
    if any([Scope::RunsWrite, Scope::SessionsWrite]) {
        note.push_str(r#"<p class="soft">It can also start runs of its own, without an agent, and stop what any agent does.</p>"#);
    }
    if any([Scope::RunsRead, Scope::SessionsRead]) {
        note.push_str(r#"<p class="soft">It can read what was asked of every agent, and what was answered.</p>"#);
    }
    format!(
        r#"<h2>With these agents</h2><label class="pick"><input type="radio" name="agents" value="all" checked><span>Every agent, later ones too</span></label>
<label class="pick"><input type="radio" name="agents" value="some"><span>Only some</span></label><div class="some">{choices}</div>{note}"#
    )
}

fn cancel(ask: &Ask<'_>) -> String {
    let button =
        r#"<p class="to"><button class="link" name="step" value="deny">Cancel</button></p>"#;
    ask.form(button)
}

/// The host of a redirect URI, or its scheme for a native app.
fn destination(uri: &str) -> String {
    match Url::parse(uri) {
        Ok(url) => match url.host_str() {
            Some(host) if matches!(url.scheme(), "http" | "https") => host.to_owned(),
            _ => format!("the app behind {}:", url.scheme()),
        },
        Err(_) => "the app".to_owned(),
    }
}
