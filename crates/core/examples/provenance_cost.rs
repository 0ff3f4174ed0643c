//! What signing and sealing cost: `cargo run --release -p backstop-core --example provenance_cost`.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::hint::black_box;
use std::time::Instant;

use backstop_core::JobId;
use backstop_core::job::Spec;
use backstop_core::sealing::{NONCE_BYTES, Owner, SealingKeys};
use backstop_core::signing::{SecretKey, SigningKeys, sign};

const ROUNDS: u32 = 200_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let key = SecretKey::new("k1", vec![7; 32])?;
    let signing = SigningKeys::new(vec![key.clone()])?;
    let sealing = SealingKeys::new(vec![key])?;
    for bytes in [200, 1_024, 16_384] {
        let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - 11));
        let mut spec = Spec::new(JobId::from_u128(1), "send_mail", payload.as_str());
        measure(&format!("sign, payload of {bytes} bytes"), || sign(&signing, black_box(&mut spec)));
        measure(&format!("verify, payload of {bytes} bytes"), || {
            black_box(signing.verify(black_box(&spec)).is_ok());
        });
        let owner = Owner::payload(spec.id, "send_mail");
        let sealed = sealing.seal(owner, &payload, [3; NONCE_BYTES])?;
        measure(&format!("seal {bytes} bytes"), || {
            black_box(sealing.seal(owner, black_box(&payload), [3; NONCE_BYTES]).is_ok());
        });
        measure(&format!("open {bytes} bytes"), || {
            black_box(sealing.open(owner, black_box(&sealed)).is_ok());
        });
    }
    Ok(())
}

/// Prints the mean of the best of five series.
fn measure(what: &str, mut work: impl FnMut()) {
    let series = (0..5).map(|_| {
        let began = Instant::now();
        (0..ROUNDS / 5).for_each(|_| work());
        began.elapsed() / (ROUNDS / 5)
    });
    println!("{what}: {} ns", series.min().unwrap_or_default().as_nanos());
}
