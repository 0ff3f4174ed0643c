//! The conditions that lists of jobs, dead letters and purges share, written once.

/// Makes a request that has the shared conditions and some fields of its own, and reads them as a store's filter.
macro_rules! with_conditions {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            /// On this queue.
            pub queue: Option<String>,
            /// Of this kind.
            pub kind: Option<String>,
            /// With this tag.
            pub tag: Option<String>,
            /// With this business key.
            pub business_key: Option<String>,
            /// Dead for this reason.
            pub reason: Option<backstop::TerminalReason>,
            /// Last failed with this fingerprint.
            pub fingerprint: Option<String>,
            /// Stored at or after this moment.
            pub created_after: Option<backstop::Timestamp>,
            /// Stored before this moment.
            pub created_before: Option<backstop::Timestamp>,
            /// Ended at or after this moment.
            pub finished_after: Option<backstop::Timestamp>,
            /// Ended before this moment.
            pub finished_before: Option<backstop::Timestamp>,
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// The conditions, with names as the caller said them.
            #[must_use]
            pub fn conditions(&self) -> backstop_store::JobFilter {
                backstop_store::JobFilter {
                    queue: self.queue.clone(),
                    kind: self.kind.clone(),
                    tag: self.tag.clone(),
                    business_key: self.business_key.clone(),
                    reason: self.reason,
                    fingerprint: self.fingerprint.clone(),
                    created_after: self.created_after,
                    created_before: self.created_before,
                    finished_after: self.finished_after,
                    finished_before: self.finished_before,
                    ..backstop_store::JobFilter::default()
                }
            }
        }
    };
}

pub(super) use with_conditions;
