//! What the tests of an application that embeds Backstop need.
