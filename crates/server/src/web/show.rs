//! How a view reaches its visitor, and what is shown where there is none.

use axum::http::StatusCode;
use axum::response::Response;
use maud::Markup;

use super::call::PageProblem;
use super::frame::{self, PagePlace};
use super::visit::{PageVisit, answer};

impl PageVisit {
    /// A view, or why there is none.
    pub(super) fn show(&self, place: PagePlace, title: &str, body: Result<Markup, PageProblem>) -> Response {
        match body {
            Ok(body) => answer(StatusCode::OK, &frame::page(self, place, title, &body)),
            Err(problem) => self.refuse(place, &problem),
        }
    }

    /// Why something cannot be shown or done.
    pub(super) fn refuse(&self, place: PagePlace, problem: &PageProblem) -> Response {
        answer(problem.status, &frame::page(self, place, "Not shown", &frame::problem(problem)))
    }
}
