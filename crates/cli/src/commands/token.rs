//! `backstop token new|list|revoke`: who may call the HTTP API.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop::{Backstop, Timestamp};
use backstop_server::shape::{MadeToken, TokenView};
use backstop_server::{Grant, Scope, TokenError, TokenInfo, Tokens, Wish};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::app::{App, who};
use crate::output::clean;
use crate::output::paint::Ink;
use crate::output::span::{self, relative};
use crate::output::table::{Listing, inked, short, text};
use crate::problem::{Exit, Problem};

/// Commands about API tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it, this once.
    New(New),
    /// Every token, without its secret.
    List,
    /// Make a token worthless, everywhere within two seconds.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// Options of `token new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// What to call it; the audit log names it.
    #[arg(long)]
    name: String,
    /// What it may do: submit, read, logs, operate, admin or work; repeat for more.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<Scope>,
    /// The tenant whose things alone it sees [default: it sees all].
    #[arg(long)]
    tenant: Option<String>,
    /// A queue that it is for; repeat for more [default: all].
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// How long it is good for, such as `90d` [default: until it is revoked].
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    expires: Option<Duration>,
    /// Keep nothing in the store: print the line for `[server] tokens` in backstop.toml too.
    #[arg(long)]
    for_config: bool,
}

pub(crate) async fn run(command: Token, app: &App) -> Result<Exit, Problem> {
    match command {
        Token::New(new) => make(new, app).await?,
        Token::List => {
            let engine = app.look().await?;
            list(&engine, app).await?;
        }
        Token::Revoke { name } => {
            let engine = app.look().await?;
            let changed = tokens(&engine, app).revoke(&name, &who(None)).await?;
            if app.out.json {
                app.out.document(&json!({ "name": name, "changed": changed, "status": "revoked" }))?;
            } else {
                let was = if changed { "is now worth nothing" } else { "was revoked before" };
                app.out.page(&format!("token `{}` {was}", clean(&name)))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn tokens(engine: &Backstop, app: &App) -> Tokens {
    Tokens::new(engine, &app.settings.server.settings.access.tokens)
}

async fn make(new: New, app: &App) -> Result<(), Problem> {
    // The first token is often made before anything else.
    let engine = app.open().await?;
    let now = engine.store().now().await?;
    let tenant = new.tenant.map(|tenant| tenant.parse()).transpose();
    let wish = Wish {
        name: new.name,
        scopes: new.scopes.into_iter().collect::<BTreeSet<_>>(),
        tenant: tenant.map_err(|error: backstop::core::tenant::TenantError| {
            Problem::usage("invalid", error.to_string())
        })?,
        queues: Some(new.queues).filter(|queues| !queues.is_empty()),
        expires: new.expires.map(|span| now.after(span)),
    };
    if new.for_config {
        return configured(wish, app);
    }
    let (token, info) = tokens(&engine, app).create(wish, &who(None)).await?;
    let told = told(&info.grant);
    if app.out.json {
        let made = MadeToken { token: token.reveal().to_owned(), made: TokenView::of(info) };
        return app.out.document(&made);
    }
    app.out.note(&format!("{told}; it is shown this once:"));
    app.out.page(token.reveal())
}

/// A token that only the configuration will know.
fn configured(wish: Wish, app: &App) -> Result<(), Problem> {
    let (token, grant) = wish.granted()?;
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
        told(&grant)
    ));
    app.out.page(&format!("{}\n{{ {} }}", token.reveal(), parts.join(", ")))
}

fn told(grant: &Grant) -> String {
    let scopes: Vec<&str> = grant.scopes.iter().map(|scope| scope.as_str()).collect();
    let until =
        grant.expires.map_or_else(|| "until it is revoked".to_owned(), |expires| format!("until {expires}"));
    format!("token `{}` may {} {until}", clean(&grant.name), scopes.join(", "))
}

async fn list(engine: &Backstop, app: &App) -> Result<(), Problem> {
    let listed = tokens(engine, app).list().await?;
    if app.out.json {
        let views: Vec<TokenView> = listed.into_iter().map(TokenView::of).collect();
        return app.out.items(&views, None);
    }
    if listed.is_empty() {
        return app.out.page(
            "there is no token: whoever is on this machine may do everything over HTTP, others nothing",
        );
    }
    let now = engine.store().now().await?;
    let heads = ["name", "state", "scopes", "tenant", "queues", "kept in", "last used", "expires"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[2, 4]).drop_first(&[5, 4, 3]);
    for info in listed {
        let state = state(&info, now);
        let view = TokenView::of(info);
        let scopes: Vec<&str> = view.scopes.iter().map(|scope| scope.as_str()).collect();
        let moment = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| relative(now, at));
        table.row(vec![
            text(&view.name),
            state,
            text(&scopes.join(", ")),
            text(view.tenant.as_deref().unwrap_or("-")),
            short(&view.queues.map_or_else(|| "all".to_owned(), |queues| queues.join(", ")), 200),
            text(&view.kept_in),
            text(&moment(view.last_used_at)),
            text(&moment(view.expires_at)),
        ]);
    }
    app.out.page(&table.text())
}

fn state(info: &TokenInfo, now: Timestamp) -> comfy_table::Cell {
    match &info.revoked {
        Some((_, by)) => inked(Ink::Red, &format!("revoked by {by}")),
        None if info.grant.is_live(now) => inked(Ink::Green, "live"),
        None => inked(Ink::Yellow, "expired"),
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Store(error) => error.into(),
            error @ TokenError::Invalid(_) => Self::usage("invalid", error.to_string()),
            error @ TokenError::Exists(_) => Self::refused("token_exists", error.to_string()),
            error @ TokenError::Unknown(_) => Self::refused("no_such_token", error.to_string()),
            error @ TokenError::Configured(_) => Self::refused("token_configured", error.to_string()),
            error => Self::failed("token", error.to_string()),
        }
    }
}
