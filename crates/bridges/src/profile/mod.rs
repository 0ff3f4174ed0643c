//! Profiles: how the messages of a system that a team has already are read and answered.
//!
//! A profile is a pure translation. Bytes and headers become what is to happen with a message: a job, a message to
//! another queue, nothing, or a refusal; the end of a job becomes bytes and headers and where they go. It connects to
//! nothing and stores nothing: the one loop of sources and the one loop of sinks do that for all profiles.

pub(crate) mod caf;
pub(crate) mod daycry;
pub(crate) mod plain;
mod publish;
mod read;
mod settings;

use backstop::sinks::OutboxMessage;
use serde_json::Value;

use crate::message::BrokerMessage;
use crate::route::{JobRoute, MessageProblem};
pub(crate) use caf::CafProfile;
use daycry::DaycryProfile;

pub(crate) use publish::{SessionPublisher, publish_all};
pub(crate) use read::{
    Addressed, KnownJob, MessageJob, ReadMessage, RunDecision, StatusAnswer, TrackedStatus,
};
pub use settings::{BridgeProfile, CafQueueKind, CafSettings, DaycrySettings};
pub(crate) use settings::{ProfileFault, ProfileParts};

/// The profile of a bridge.
#[derive(Debug, Clone)]
pub(crate) enum MessageProfile {
    Plain { to: String },
    Caf(Box<CafProfile>),
    Daycry(Box<DaycryProfile>),
}

impl Default for MessageProfile {
    fn default() -> Self {
        Self::Plain { to: String::new() }
    }
}

impl MessageProfile {
    /// The profile of these settings.
    pub(crate) fn new(parts: &ProfileParts<'_>) -> Result<Self, ProfileFault> {
        parts.check()?;
        Ok(match parts.profile {
            BridgeProfile::Plain => Self::Plain { to: parts.to.unwrap_or_default().to_owned() },
            BridgeProfile::Caf => Self::Caf(Box::new(CafProfile::new(parts)?)),
            BridgeProfile::Daycry => Self::Daycry(Box::new(DaycryProfile::new(parts)?)),
        })
    }

    /// Where to ask about the job that a message belongs to before it is read, at this moment.
    pub(crate) fn question(&self, message: &BrokerMessage, now_ms: i64) -> Option<String> {
        match self {
            Self::Caf(caf) => caf.question(message, now_ms),
            Self::Plain { .. } | Self::Daycry(_) => None,
        }
    }

    /// Whether this address may be asked.
    pub(crate) fn may_ask(&self, url: &str) -> bool {
        match self {
            Self::Caf(caf) => caf.may_ask(url),
            Self::Plain { .. } | Self::Daycry(_) => false,
        }
    }

    /// Whether its jobs are asked about once more before they run.
    pub(crate) fn asks_before_runs(&self) -> bool {
        match self {
            Self::Caf(caf) => caf.asks(),
            Self::Plain { .. } | Self::Daycry(_) => false,
        }
    }

    /// Where to ask about a job with these parameters before it runs, at this moment.
    pub(crate) fn question_before_run(&self, params: &Value, now_ms: i64) -> Option<String> {
        match self {
            Self::Caf(caf) => caf.question_before_run(params, now_ms),
            Self::Plain { .. } | Self::Daycry(_) => None,
        }
    }

    /// What is to happen with a job that is about to run.
    pub(crate) fn before_run(&self, answer: StatusAnswer) -> RunDecision {
        match self {
            Self::Caf(caf) => caf.before_run(answer),
            Self::Plain { .. } | Self::Daycry(_) => RunDecision::Run,
        }
    }

    /// What is to happen with a message.
    pub(crate) fn read(
        &self,
        route: &JobRoute,
        message: &BrokerMessage,
        status: Option<StatusAnswer>,
        now_ms: i64,
    ) -> Result<ReadMessage, MessageProblem> {
        match self {
            Self::Plain { .. } => plain::read(route, message),
            Self::Caf(caf) => caf.read(route, message, status, now_ms),
            Self::Daycry(daycry) => daycry.read(route, message),
        }
    }

    /// What its sender is told of a message that cannot be a job.
    pub(crate) fn refusal(&self, message: &BrokerMessage, reason: &str, now_ms: i64) -> Vec<Addressed> {
        match self {
            Self::Caf(caf) => caf.refusal(message, reason, now_ms),
            Self::Plain { .. } | Self::Daycry(_) => Vec::new(),
        }
    }

    /// Whether [`MessageProfile::answers`] needs the job that a message is about.
    pub(crate) const fn needs_jobs(&self) -> bool {
        matches!(self, Self::Caf(_))
    }

    /// What is published of something that happened to a job.
    pub(crate) fn answers(&self, message: &OutboxMessage, job: Option<&KnownJob>) -> Vec<Addressed> {
        match self {
            Self::Plain { to } => vec![Addressed::new(to, plain::message(message))],
            Self::Daycry(daycry) => vec![Addressed::new(&daycry.to, plain::message(message))],
            Self::Caf(caf) => caf.answers(message, job),
        }
    }
}
