use backstop_macros::JobError;

#[derive(JobError)]
enum MailError {
    #[job(permanant = "typo")]
    Typo,
    #[job(fatal)]
    NoSuchMark,
    #[job(permanent, transient = "smtp")]
    TwoMarks,
    #[job(permanent)]
    #[job(invalid)]
    TwoAttributes,
    #[job(transient)]
    NoDependency,
    #[job(retry_in = "30 seconds")]
    NoDuration,
    #[job(permanent = "")]
    NoReason,
    #[job()]
    Empty,
    OnField(#[job(permanent)] String),
}

#[derive(JobError)]
union Bits {
    byte: u8,
}

fn main() {}
