//! What processes complain of: passed on as it comes. The last line of it is kept: it may be all that is known of a
//! death (C4).

use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

/// Bytes that are kept of a line.
const MOST: usize = 1_000;

/// How long the last words of a process may take that is gone: somebody else may have its pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// The stderr of one process.
#[derive(Debug)]
pub(super) struct PassedOn {
    kept: Arc<Mutex<LastLine>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct LastLine {
    whole: Vec<u8>,
    begun: Vec<u8>,
}

impl PassedOn {
    /// Passes on what comes, until nobody can write any more.
    pub(super) fn follow(pipe: ChildStderr) -> Option<Self> {
        let pipe = tokio::process::ChildStderr::from_std(pipe).ok()?;
        let kept = Arc::default();
        let task = tokio::spawn(pass_on(pipe, tokio::io::stderr(), Arc::clone(&kept)));
        Some(Self { kept, task })
    }

    /// The last line of a process that has ended, when it said anything.
    pub(super) async fn last_line(self) -> Option<String> {
        let _ = tokio::time::timeout(PATIENCE, self.task).await;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    kept: Arc<Mutex<LastLine>>,
) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        // When nobody reads it any more, the process must not be held up all the same.
        let _ = to.write_all(&buffer[..count]).await;
        let _ = to.flush().await;
        kept.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..count]);
    }
}

impl LastLine {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (line, ends) = part.strip_suffix(b"\n").map_or((part, false), |line| (line, true));
            let room = MOST - self.begun.len();
            self.begun.extend_from_slice(&line[..line.len().min(room)]);
            if ends {
                let line = std::mem::take(&mut self.begun);
                if !line.trim_ascii().is_empty() {
                    self.whole = line;
                }
            }
        }
    }

    fn text(&self) -> Option<String> {
        let last = if self.begun.trim_ascii().is_empty() { &self.whole } else { &self.begun };
        let text = String::from_utf8_lossy(last).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_is_passed_on_and_the_last_line_is_kept() {
        // C4
        let long = format!("{}\n", "x".repeat(20_000));
        for (said, last) in [
            ("", None),
            ("\n \n", None),
            ("one\ntwo\n", Some("two")),
            ("one\ntwo\n\n", Some("two")),
            ("one\ntw", Some("tw")),
            (&*long, Some(&long[..MOST])),
        ] {
            let (kept, mut passed) = (Arc::default(), Vec::new());
            pass_on(said.as_bytes(), &mut passed, Arc::clone(&kept)).await;
            assert_eq!(passed, said.as_bytes());
            let text = kept.lock().unwrap_or_else(PoisonError::into_inner).text();
            assert_eq!(text.as_deref(), last, "{said:?}");
        }
    }
}
