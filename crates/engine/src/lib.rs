//! A durable job engine whose heart is what happens when work fails.
