//! `backstop doctor`: what is wrong with the store, if anything is.

use backstop_server::shape::{Finding, Items, Level};

use crate::app::App;
use crate::output::paint::Ink;
use crate::output::table::{Listing, inked, text};
use crate::problem::{Exit, Problem};

pub(crate) async fn run(app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let findings = client.get::<Items<Finding>>("/api/v1/doctor").await?.items;
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good);
    if app.out.json {
        app.out.items(&findings, None)?;
    } else {
        app.out.page(&page(app, &findings))?;
        let verdict = match worst {
            Level::Good => app.out.err_ink(Ink::Green, "all is well"),
            Level::Warning => app.out.err_ink(Ink::Yellow, "it works, and could be better"),
            Level::Bad => {
                app.out.err_ink(Ink::Red, "an acknowledged job could be lost, or work cannot go on")
            }
        };
        app.out.note(&format!("\n{verdict}"));
    }
    Ok(if worst == Level::Bad { Exit::Failed } else { Exit::Done })
}

fn page(app: &App, findings: &[Finding]) -> String {
    let mut table =
        Listing::new(&app.out, &["", "what", "found", "what to do"]).flexible(&[2, 3]).row_lines(8);
    for finding in findings {
        let mark = match finding.level {
            Level::Good => "✓ good",
            Level::Warning => "! warning",
            Level::Bad => "✗ bad",
        };
        table.row(vec![
            inked(Ink::of_level(finding.level), mark),
            text(&finding.subject),
            text(&finding.message),
            text(finding.hint.as_deref().unwrap_or("")),
        ]);
    }
    table.text()
}
