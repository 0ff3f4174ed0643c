//! A signed message through the same checks as a job's request, for those who send without a payload: webhooks.
//!
//! It must not follow redirects: a signed message goes to the address that was named and nowhere else.

use backstop::standard_webhooks::Secret;
use backstop::{BoxError, Outcome};

use super::connect::closed;
use super::exchange::{HttpRequest, exchange};
use super::settings::HttpSettings;
use super::target::Target;
use crate::refusal::refused;

impl HttpSettings {
    /// Looks at an address without asking anybody: how it is written, its port, and where it leads when it says so
    /// itself. Where a name leads is looked at when it is connected to.
    ///
    /// # Errors
    /// A sentence that says what is wrong; it repeats nothing of the address but its host.
    pub fn admits(&self, url: &str) -> Result<(), String> {
        let target = Target::parse(url).map_err(|refusal| refusal.to_string())?;
        closed(&target, self).map_or(Ok(()), |refusal| Err(refusal.to_string()))
    }

    /// Posts a text as JSON, signed under `id` after the Standard Webhooks conventions, to an address that these
    /// settings open. Answers the status, whatever it is; redirects are not followed.
    ///
    /// # Errors
    /// When no answer came; permanent when the address is closed or the secret is none. The words name the host and
    /// never the path.
    pub async fn post_signed(
        &self,
        url: &str,
        secret: &str,
        id: &str,
        body: String,
    ) -> Result<u16, BoxError> {
        let target = Target::parse(url).map_err(refused)?;
        let secret = Secret::parse(secret).ok_or_else(|| {
            Outcome::permanent("the secret is not whsec_ followed by 24 to 64 bytes in base64")
        })?;
        let message = HttpRequest::message(body, id, secret);
        match tokio::time::timeout(self.timeout, exchange(&target, &message, self)).await {
            Ok(answered) => answered.map(|answer| answer.status.as_u16()),
            Err(_) => Err(Outcome::timeout(self.timeout).into()),
        }
    }
}
