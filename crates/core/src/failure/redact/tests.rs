//! Proves rule F11: no secret of any family stays, ordinary messages do.

mod behaviour;
mod generated;
mod messages;
mod neighbours;
mod ordinary;
mod planted;
mod readable;
mod secrets;

use super::{Redactor, StandardRedactor};

/// Redacts with the built-in families only.
fn redact(text: &str) -> String {
    StandardRedactor::default().redact(text).into_owned()
}

/// A tiny generator of our own: the same numbers on every machine, for ever.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a generator repeat quickly; only the high half is handed out.
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("bounds in tests are small");
        usize::try_from(self.next() % bound).expect("smaller than a usize bound")
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn string(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER_NUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
