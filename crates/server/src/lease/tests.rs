//! Tokens that were tampered with, by hand and at random.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop::{JobId, Timestamp, WorkerId};
use backstop_core::{Fence, Lease};
use backstop_store::{ManualClock, ModelStore};

use super::*;

/// Random enough for tests, and the same again for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }
}

fn caller(tenant: Option<&str>) -> Caller {
    Caller::holder("tester", BTreeSet::new(), tenant.map(str::to_owned), None)
}

fn grant(number: u128, queue: &str) -> Grant {
    Grant {
        lease: Lease {
            job: JobId::from_u128(number),
            worker: WorkerId::from_u128(number << 7),
            fence: Fence(i64::try_from(number).expect("a small number")),
        },
        queue: queue.into(),
        claimed_at: Timestamp::from_micros(1_767_225_600_000_000),
        term: Duration::from_secs(30),
        batch: 3,
        circuit: None,
        code_version: Some("1.4.2".into()),
    }
}

fn key(byte: u8) -> LeaseKey {
    LeaseKey([byte; KEY_BYTES])
}

#[test]
fn a_token_is_opened_by_whom_it_was_made_for_and_nobody_else() {
    // E7
    let (acme, other, nobody) = (caller(Some("acme")), caller(Some("other")), caller(None));
    let plain = Grant { code_version: None, ..grant(2, "mail") };
    for (owner, granted) in
        [(&acme, grant(1, "acme/mail")), (&nobody, plain), (&nobody, grant(3, "acme/mail"))]
    {
        let token = key(1).seal(owner, &granted);
        assert!(token.len() < 400, "{token}");
        assert_eq!(key(1).open(owner, &token), Some(granted));
        assert_eq!(key(2).open(owner, &token), None, "another key");
        assert_eq!(key(1).open(&other, &token), None, "another tenant");
    }
    let token = key(1).seal(&acme, &grant(1, "acme/mail"));
    assert_eq!(key(1).open(&nobody, &token), None, "a caller without a tenant did not take the lease");
    let elsewhere = Caller::holder("x", BTreeSet::new(), Some("acme".into()), Some(vec!["print".into()]));
    assert_eq!(key(1).open(&elsewhere, &token), None, "a token for other queues");
}

/// A text made of `token` and a stranger's that no key holder has signed.
fn mutated(dice: &mut Dice, token: &str, stranger: &str) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let (first, second) = (dice.below(bytes.len()), dice.below(bytes.len()));
    match dice.below(9) {
        0 => bytes[first] ^= 1 << dice.below(7),
        1 => bytes.swap(first, second),
        2 => bytes.truncate(first),
        3 => drop(bytes.drain(..first)),
        4 => bytes.insert(first, b'A'),
        5 => bytes[first] = b"ABCxyz019-_.=+/ "[dice.below(16)],
        6 => drop(bytes.remove(first)),
        7 => {
            // What one says with the signature of another, or one's fields within the other's.
            let cut = first.min(stranger.len());
            bytes = [&token.as_bytes()[..cut], &stranger.as_bytes()[cut..]].concat();
        }
        _ => bytes[first] ^= 0x20,
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn of_a_hundred_thousand_tampered_tokens_none_is_accepted() {
    // E7
    let mut seed = [0u8; 8];
    getrandom::fill(&mut seed).expect("randomness");
    let seed = u64::from_be_bytes(seed);
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let (acme, key) = (caller(Some("acme")), key(7));
    let others = [caller(Some("acme2")), caller(Some("Acme")), caller(None)];
    let mut tried = 0;
    while tried < 100_000 {
        let number = 1 + u128::from(dice.next() % 1_000_000);
        let (granted, else_granted) = (grant(number, "acme/mail"), grant(number + 1, "acme/mail"));
        let (token, stranger) = (key.seal(&acme, &granted), key.seal(&acme, &else_granted));
        assert_eq!(key.open(&acme, &token), Some(granted), "seed {seed}");
        for other in &others {
            assert_eq!(key.open(other, &token), None, "seed {seed}");
        }
        for _ in 0..100 {
            let bad = mutated(&mut dice, &token, &stranger);
            if bad != token && bad != stranger {
                assert_eq!(key.open(&acme, &bad), None, "seed {seed}: {bad} of {token}");
                tried += 1;
            }
        }
    }
}

#[test]
fn what_is_signed_but_says_nothing_is_refused() {
    let (acme, key) = (caller(Some("acme")), key(7));
    let bytes = payload::write(Some("acme"), &grant(1, "acme/mail"));
    let mut bad: Vec<Vec<u8>> = (0..bytes.len()).map(|length| bytes[..length].to_vec()).collect();
    bad.push([&bytes[..], b"x"].concat());
    bad.push([&[2], &bytes[1..]].concat());
    for bytes in bad {
        let signed = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&bytes));
        let signature = URL_SAFE_NO_PAD.encode(key.mac(&signed).finalize().into_bytes());
        assert_eq!(key.open(&acme, &format!("{signed}.{signature}")), None, "{bytes:?}");
    }
    assert_eq!(key.open(&acme, &"lt1.".repeat(10_000)), None);
}

#[tokio::test]
async fn all_nodes_of_a_store_share_one_key() {
    // E7
    let store = ModelStore::new(Arc::new(ManualClock::default()));
    let (here, there) = (LeaseSigner::default(), LeaseSigner::default());
    let (here, there) = tokio::join!(here.key(&store), there.key(&store));
    let (here, there) = (here.expect("a key"), there.expect("a key"));
    assert_eq!(here.0, there.0);
    let other = ModelStore::new(Arc::new(ManualClock::default()));
    assert_ne!(
        here.0,
        LeaseSigner::default().key(&other).await.expect("a key").0,
        "another store has its own"
    );
    assert_eq!(format!("{here:?}"), "LeaseKey", "it cannot be shown");
}
