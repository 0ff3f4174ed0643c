//! `backstop token new|list|revoke`: who may call the HTTP API.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop::Timestamp;
use backstop_core::Tenant;
use backstop_server::shape::{Changed, MadeToken, NewToken, TokenView};
use backstop_server::{Scope, TokenError, TokenRequest};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::app::App;
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::{self, relative};
use crate::output::table::{TextTable, inked, short, text};
use crate::problem::{Exit, Problem};

const TOKENS: &str = "/api/v1/tokens";

/// What a server says of a name that no token has.
const UNKNOWN: &str = "no_such_token";

/// Commands about API tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once.
    New(NewTokenOptions),
    /// List tokens, without their secrets.
    List,
    /// Revoke a token; it stops working within two seconds.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// Options of `token new`.
#[derive(Debug, Args)]
pub(crate) struct NewTokenOptions {
    /// Its name, as the audit log shows it.
    #[arg(long)]
    name: String,
    /// What it may do: submit, read, logs, operate, admin or work; repeat for more.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<Scope>,
    /// Restrict it to this tenant [default: all].
    #[arg(long)]
    tenant: Option<String>,
    /// Restrict it to this queue; repeat for more [default: all].
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// How long it is valid, such as `90d` [default: until it is revoked].
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    expires: Option<Duration>,
    /// Store nothing; print the line for `[server] tokens` in backstop.toml too.
    #[arg(long)]
    for_config: bool,
}

pub(crate) async fn run(command: TokenCommand, app: &App) -> Result<Exit, Problem> {
    match command {
        TokenCommand::New(new) => make(new, app).await?,
        TokenCommand::List => list(&app.looking().await?, app).await?,
        TokenCommand::Revoke { name } => revoke(&app.looking().await?, app, &name).await?,
    }
    Ok(Exit::Done)
}

async fn make(new: NewTokenOptions, app: &App) -> Result<(), Problem> {
    let NewTokenOptions { name, scopes, tenant, queues, expires, for_config } = new;
    // The first token is often made before anything else.
    let client = app.client().await?;
    let expires_at = match expires {
        Some(span) => Some(client.now().await?.after(span)),
        None => None,
    };
    let scopes: BTreeSet<Scope> = scopes.into_iter().collect();
    let queues = Some(queues).filter(|queues| !queues.is_empty());
    let wanted = NewToken { name, scopes, tenant, queues, expires_at };
    if for_config {
        return configured(wanted, app);
    }
    let MadeToken { token, made } = client.post(TOKENS, &wanted).await.map_err(judged)?;
    if app.out.json {
        return app.out.document(&MadeToken { token, made });
    }
    app.out.note(&format!("{}; it is shown this once:", told(&made.name, &made.scopes, made.expires_at)));
    app.out.page(&token)
}

async fn revoke(client: &Client, app: &App, name: &str) -> Result<(), Problem> {
    let revoked = client.delete::<Changed>(&format!("{TOKENS}/{}", escaped(name))).await;
    let changed = match revoked {
        Ok(Changed { changed, .. }) => changed,
        // A server does not repeat a name that nobody has: it may be a token that was taken for one.
        Err(problem) if problem.is(UNKNOWN) => {
            return Err(Problem::refused(UNKNOWN, format!("there is no token `{}`", clean(name)))
                .hint("`backstop token list` shows those that exist"));
        }
        Err(problem) => return Err(judged(problem)),
    };
    if app.out.json {
        return app.out.document(&json!({ "name": name, "changed": changed, "status": "revoked" }));
    }
    let was = if changed { "is revoked" } else { "was already revoked" };
    app.out.page(&format!("token `{}` {was}", clean(name)))
}

/// What a refusal means to scripts: what was asked for can never be, or a guard stands in the way.
fn judged(problem: Problem) -> Problem {
    if problem.is("invalid") { problem.exiting(Exit::Usage) } else { problem }
}

/// A token that only the configuration will know.
fn configured(wanted: NewToken, app: &App) -> Result<(), Problem> {
    let NewToken { name, scopes, tenant, queues, expires_at } = wanted;
    let tenant = tenant.map(|tenant| tenant.parse::<Tenant>()).transpose();
    let tenant = tenant.map_err(|error| Problem::usage("invalid", error.to_string()))?;
    let (token, grant) = TokenRequest { name, scopes, tenant, queues, expires: expires_at }.granted()?;
    let line = json!({ "token": token.reveal(), "grant": grant });
    if app.out.json {
        return app.out.document(&line);
    }
    let quoted =
        |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let scopes: Vec<String> = grant.scopes.iter().map(ToString::to_string).collect();
    let mut parts = vec![
        format!("name = {:?}", grant.name),
        format!("hash = \"{}\"", grant.hash),
        format!("scopes = [{}]", quoted(&scopes)),
    ];
    parts.extend(grant.tenant.as_ref().map(|tenant| format!("tenant = \"{tenant}\"")));
    parts.extend(grant.queues.as_ref().map(|queues| format!("queues = [{}]", quoted(queues))));
    parts.extend(grant.expires.map(|expires| format!("expires = \"{expires}\"")));
    app.out.note(&format!(
        "{}; nothing is kept in the store. The token, and the line for [server] tokens:",
        told(&grant.name, &grant.scopes, grant.expires)
    ));
    app.out.page(&format!("{}\n{{ {} }}", token.reveal(), parts.join(", ")))
}

fn told(name: &str, scopes: &BTreeSet<Scope>, expires: Option<Timestamp>) -> String {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let until =
        expires.map_or_else(|| "until it is revoked".to_owned(), |expires| format!("until {expires}"));
    format!("token `{}` may {} {until}", clean(name), scopes.join(", "))
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let listed: Vec<TokenView> = client.list(TOKENS).await?;
    if app.out.json {
        return app.out.items(&listed, None);
    }
    if listed.is_empty() {
        return app.out.page("no tokens: anyone on this machine may do everything over HTTP, others nothing");
    }
    let now = client.now().await?;
    let heads = ["name", "state", "scopes", "tenant", "queues", "kept in", "last used", "expires"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[2, 4]).drop_first(&[5, 4, 3]);
    for view in listed {
        let scopes: Vec<&str> = view.scopes.iter().map(|scope| scope.as_str()).collect();
        let moment = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| relative(now, at));
        table.row(vec![
            text(&view.name),
            state(&view, now),
            text(&scopes.join(", ")),
            text(view.tenant.as_deref().unwrap_or("-")),
            short(&view.queues.as_ref().map_or_else(|| "all".to_owned(), |queues| queues.join(", ")), 200),
            text(&view.kept_in),
            text(&moment(view.last_used_at)),
            text(&moment(view.expires_at)),
        ]);
    }
    app.out.page(&table.text())
}

fn state(view: &TokenView, now: Timestamp) -> comfy_table::Cell {
    match (&view.revoked_by, view.expires_at) {
        (Some(by), _) => inked(Colour::Red, &format!("revoked by {by}")),
        (None, Some(expires)) if expires <= now => inked(Colour::Yellow, "expired"),
        (None, _) => inked(Colour::Green, "live"),
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            error @ TokenError::Invalid(_) => Self::usage("invalid", error.to_string()),
            error => Self::failed("token", error.to_string()),
        }
    }
}
