//! A run from its checks to its end, wherever its handler is: in this process, or behind HTTP.
//!
//! [`before`] says whether a job may run, [`suspects`] whether beside others, [`output`], [`children`], [`steps`] and
//! [`rejects`] keep what the handler leaves, [`listener`] hears it at once, [`conclude`] and [`end`] turn what happened
//! into an ending, and [`write`] brings endings into the store.

pub(crate) mod before;
pub(crate) mod children;
pub(crate) mod conclude;
pub(crate) mod end;
pub(crate) mod listener;
pub(crate) mod output;
pub(crate) mod rejects;
pub(crate) mod steps;
pub(crate) mod suspects;
pub(crate) mod write;
