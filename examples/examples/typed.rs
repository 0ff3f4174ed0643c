// A job as a struct of your own, with an error type that says what each failure means. Run it with:
// cargo run -p backstop-examples --example typed
use backstop::prelude::*;

#[derive(Serialize, Deserialize)]
struct SendEmail {
    to: String,
    #[serde(default)]
    copies: Vec<String>,
}

/// What all handlers share: the application's own struct.
struct App {
    sender: &'static str,
}

#[derive(Debug, thiserror::Error, JobError)]
enum MailError {
    #[error("not an address: {0}")]
    #[job(permanent = "a bad address cannot be fixed by retrying")]
    BadAddress(String),
}

impl Job for SendEmail {
    const KIND: &'static str = "send_email";
    type Context = App;
    type Output = Result<(), MailError>;
    async fn run(self, cx: JobContext<App>) -> Result<(), MailError> {
        if !self.to.contains('@') {
            return Err(MailError::BadAddress(self.to));
        }
        println!("{} writes to {} and {} more", cx.app().sender, self.to, self.copies.len());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("sqlite:typed.db").await?;
    for to in ["ann@example.com", "nobody"] {
        engine.enqueue(SendEmail { to: to.into(), copies: vec!["bob@example.com".into()] }).submit().await?;
    }
    let app = App { sender: "the shop" };
    engine.worker(app).register::<SendEmail>().queue("default", 4).inline()?.drain(100).await?;
    println!("dead letters: {}", engine.queues().list().await?[0].failed);
    Ok(())
}
