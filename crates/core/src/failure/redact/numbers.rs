//! Numbers that identify a person's money: payment cards and bank accounts.
//!
//! A length and a checksum alone would hide one timestamp or order number in ten, so a card must also start
//! like a card of a known network with that length, and an account number must have its country's length.

use super::edges;
use super::spans::SecretRanges;

const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Marks payment card numbers, plain or in groups joined by one kind of separator.
pub(super) fn mark_cards(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    let mut position = 0;
    while position < bytes.len() {
        if !bytes[position].is_ascii_digit() {
            position += 1;
            continue;
        }
        let group_end = digits_end(bytes, position);
        let letters = bytes[..position].iter().rev().take(1).filter(|b| b.is_ascii_alphabetic()).count();
        let start = edges::after_escape(bytes, position - letters).clamp(position, group_end);
        position = match card_end(bytes, start, group_end) {
            Some(end) if !is_glued_before(bytes, start) => {
                spans.mark(start..end);
                end
            }
            _ => group_end,
        };
    }
}

fn digits_end(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Digits right after a letter are part of a name or a digest; after a decimal point, of a fraction.
fn is_glued_before(bytes: &[u8], start: usize) -> bool {
    match bytes[..start] {
        [.., digit, b'.'] => digit.is_ascii_digit(),
        _ => !edges::begins(bytes, start),
    }
}

fn is_glued_after(bytes: &[u8], end: usize) -> bool {
    match bytes[end..] {
        [b'.', digit, ..] => digit.is_ascii_digit(),
        [after, ..] => after.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// The end of the card number whose first group of digits is `start..group_end`, if it is one.
fn card_end(bytes: &[u8], start: usize, group_end: usize) -> Option<usize> {
    let mut digits = [0u8; 19];
    let mut count = 0;
    let mut position = start;
    let mut end = group_end;
    let separator = bytes.get(group_end).copied().filter(|b| matches!(b, b' ' | b'-'));
    let mut best = None;
    loop {
        let group = &bytes[position..end];
        // Groups of real cards have three to seven digits, the last sometimes fewer.
        if count > 0 && group.len() > 7 || count + group.len() > digits.len() {
            return best;
        }
        digits[count..count + group.len()].copy_from_slice(group);
        count += group.len();
        if CARD_DIGITS.contains(&count) && !is_glued_after(bytes, end) && is_card(&digits[..count]) {
            best = Some(end);
        }
        let continues =
            (3..=7).contains(&group.len()) && separator.is_some() && bytes.get(end).copied() == separator;
        if !continues || !bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            return best;
        }
        position = end + 1;
        end = digits_end(bytes, position);
    }
}

fn is_card(digits: &[u8]) -> bool {
    is_card_range(digits) && passes_luhn(digits) && digits.iter().any(|digit| *digit != digits[0])
}

/// Whether a network issues numbers with this start and length.
fn is_card_range(digits: &[u8]) -> bool {
    let start = digits[..6].iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    match start {
        400_000..=499_999 => matches!(digits.len(), 13 | 16 | 19),
        510_000..=559_999 | 222_100..=272_099 | 220_000..=220_499 => digits.len() == 16,
        340_000..=349_999 | 370_000..=379_999 => digits.len() == 15,
        300_000..=305_999 | 309_500..=309_599 | 360_000..=369_999 | 380_000..=399_999 => {
            matches!(digits.len(), 14 | 16)
        }
        352_800..=358_999 => (16..=19).contains(&digits.len()),
        500_000..=509_999 | 560_000..=589_999 | 600_000..=699_999 | 810_000..=829_999 => {
            (16..=19).contains(&digits.len())
        }
        _ => false,
    }
}

fn passes_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, u32::from(digit - b'0')) {
            (0, value) => value,
            (_, value) if value > 4 => value * 2 - 9,
            (_, value) => value * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Account number length by country, as registered with SWIFT.
const IBAN_LENGTHS: &str = "\
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 \
    EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 \
    JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 \
    NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 \
    TL23 TN24 TR26 UA29 VA22";

/// Marks international bank account numbers, plain or in groups.
pub(super) fn mark_ibans(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    for start in 0..bytes.len() {
        let at_word_start = bytes[start].is_ascii_alphabetic() && edges::begins(bytes, start);
        if at_word_start && let Some(end) = iban_end(bytes, start) {
            spans.mark(start..end);
        }
    }
}

fn iban_end(bytes: &[u8], start: usize) -> Option<usize> {
    let [first, second, check, digit, ..] = bytes[start..] else { return None };
    if !check.is_ascii_digit() || !digit.is_ascii_digit() {
        return None;
    }
    let country = [first.to_ascii_uppercase(), second.to_ascii_uppercase()];
    let entry = IBAN_LENGTHS.split(' ').find(|entry| entry.as_bytes().starts_with(&country))?;
    let length: usize = entry.get(2..)?.parse().ok()?;
    let mut account = [0u8; 34];
    let mut count = 0;
    let mut end = start;
    while count < length {
        let byte = *bytes.get(end)?;
        if byte.is_ascii_alphanumeric() {
            account[count] = byte;
            count += 1;
        } else if !matches!(byte, b' ' | b'-') || !bytes[end - 1].is_ascii_alphanumeric() {
            return None;
        }
        end += 1;
    }
    let is_whole = !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
    (is_whole && has_iban_checksum(&account[..count])).then_some(end)
}

/// ISO 7064 mod 97: country and check digits moved to the end, letters counted as 10 to 35.
fn has_iban_checksum(account: &[u8]) -> bool {
    let rotated = account[4..].iter().chain(&account[..4]);
    let remainder = rotated.fold(0u32, |rest, byte| match char::from(*byte).to_digit(36) {
        Some(value) if value > 9 => (rest * 100 + value) % 97,
        Some(value) => (rest * 10 + value) % 97,
        None => rest,
    });
    remainder == 1
}
