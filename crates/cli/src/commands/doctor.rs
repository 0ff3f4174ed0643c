//! `backstop doctor`: what is wrong with the store, if anything is.

use backstop_server::shape::{DoctorFinding, DoctorLevel, Items};

use crate::app::App;
use crate::output::paint::Colour;
use crate::output::table::{TextTable, inked, text};
use crate::problem::{Exit, Problem};

pub(crate) async fn run(app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let findings = client.get::<Items<DoctorFinding>>("/api/v1/doctor").await?.items;
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(DoctorLevel::Good);
    if app.out.json {
        app.out.items(&findings, None)?;
    } else {
        app.out.page(&page(app, &findings))?;
        let verdict = match worst {
            DoctorLevel::Good => app.out.err_ink(Colour::Green, "all is well"),
            DoctorLevel::Warning => app.out.err_ink(Colour::Yellow, "it works, and could be better"),
            DoctorLevel::Bad => {
                app.out.err_ink(Colour::Red, "an acknowledged job could be lost, or work cannot go on")
            }
        };
        app.out.note(&format!("\n{verdict}"));
    }
    Ok(if worst == DoctorLevel::Bad { Exit::Failed } else { Exit::Done })
}

fn page(app: &App, findings: &[DoctorFinding]) -> String {
    let mut table =
        TextTable::new(&app.out, &["", "what", "found", "what to do"]).flexible(&[2, 3]).row_lines(8);
    for finding in findings {
        let mark = match finding.level {
            DoctorLevel::Good => "✓ good",
            DoctorLevel::Warning => "! warning",
            DoctorLevel::Bad => "✗ bad",
        };
        table.row(vec![
            inked(Colour::of_level(finding.level), mark),
            text(&finding.subject),
            text(&finding.message),
            text(finding.hint.as_deref().unwrap_or("")),
        ]);
    }
    table.text()
}
