//! Forms: each names one action, carries the proof that we made it, and is shown only to whoever may do it.

use maud::{Markup, html};

use super::actions::PageAction;
use super::visit::PageVisit;

impl PageVisit {
    /// A form with a button, for what can be undone; nothing for somebody who may not.
    pub(super) fn form(
        &self,
        action: &PageAction,
        at: &[(&str, &str)],
        fields: &Markup,
        button: &str,
    ) -> Markup {
        if !self.allows(action.route) {
            return html! {};
        }
        html! { form.act action="/act" method="post" { (self.hidden(action, at)) (fields) button { (button) } } }
    }

    /// The same on a page of its own: afterwards another one is shown.
    pub(super) fn form_then(&self, action: &PageAction, fields: &Markup, then: &str, button: &str) -> Markup {
        if !self.allows(action.route) {
            return html! {};
        }
        html! {
            form.act action="/act" method="post" {
                (self.hidden_back(action, &[], then))
                (fields)
                button.sure { (button) }
            }
        }
    }

    /// The same for what changes much: the button opens what will happen, and a second one does it.
    pub(super) fn confirmed(
        &self,
        action: &PageAction,
        at: &[(&str, &str)],
        button: &str,
        happens: &str,
        fields: &Markup,
    ) -> Markup {
        if !self.allows(action.route) {
            return html! {};
        }
        html! {
            details.confirm {
                summary { (button) "…" }
                form.act action="/act" method="post" {
                    (self.hidden(action, at))
                    p { (happens) }
                    (fields)
                    button.sure { (button) }
                }
            }
        }
    }

    fn hidden(&self, action: &PageAction, at: &[(&str, &str)]) -> Markup {
        self.hidden_back(action, at, self.uri.path_and_query().map_or("/", |path| path.as_str()))
    }

    fn hidden_back(&self, action: &PageAction, at: &[(&str, &str)], back: &str) -> Markup {
        html! {
            input type="hidden" name="proof" value=(self.proof());
            input type="hidden" name="do" value=(action.name);
            input type="hidden" name="back" value=(back);
            @for (name, value) in at { input type="hidden" name={ "at." (name) } value=(value); }
        }
    }
}

/// A line of text.
pub(super) fn text(name: &str, label: &str, value: &str, hint: &str) -> Markup {
    html! {
        label.field {
            span { (label) } input type="text" name=(name) value=(value) placeholder=(hint) maxlength="500";
        }
    }
}

/// A whole number.
pub(super) fn whole(name: &str, label: &str, value: u64, least: u64, most: u64) -> Markup {
    html! {
        label.field {
            span { (label) } input type="number" name=(name) value=(value) min=(least) max=(most) required;
        }
    }
}

/// A whole number that may be left out.
pub(super) fn whole_if(name: &str, label: &str, least: u64, most: u64) -> Markup {
    html! {
        label.field { span { (label) } input type="number" name=(name) min=(least) max=(most) placeholder="none"; }
    }
}

/// JSON.
pub(super) fn json(name: &str, label: &str, value: &str) -> Markup {
    html! { label.field.wide { span { (label) } textarea name=(name) rows="8" spellcheck="false" { (value) } } }
}

/// One of several.
pub(super) fn choice(name: &str, label: &str, chosen: Option<&str>, choices: &[(&str, &str)]) -> Markup {
    html! {
        label.field {
            span { (label) }
            select name=(name) {
                @for (value, text) in choices {
                    option value=(value) selected[chosen.unwrap_or_default() == *value] { (text) }
                }
            }
        }
    }
}
