//! `[limits]`: what a job, its keys and its output may measure at most (L20).

use std::time::Duration;

use backstop::Limits;

use super::read::PlainValue;

const MIB: u64 = 1024 * 1024;

/// The most rows that the HTTP API reads at once for a list of 50 or a search: with a lower limit it would refuse
/// itself.
const PAGE_MIN: u64 = 100;

/// More than this of anything of one tenant is a typing error.
const TENANT_MAX: u64 = 1_000_000;

/// Takes one limit over. Those that the tables of the stores rest on can be lowered and not raised.
pub(super) fn take(limits: &mut Limits, word: &str, value: &PlainValue) -> Result<(), String> {
    let usual = Limits::default();
    if let (PlainValue::Span(span), "delay") = (value, word) {
        limits.delay = at_most_span(*span, usual.delay)?;
        return Ok(());
    }
    let PlainValue::Count(count) = value else { return Ok(()) };
    if word == "max_depth_per_tenant" {
        limits.max_depth_per_tenant = Some(at_most(*count, u64::MAX)?);
        return Ok(());
    }
    let (place, most) = match word {
        "payload_bytes" => (&mut limits.payload_bytes, 64 * MIB),
        "result_bytes" => (&mut limits.result_bytes, 16 * MIB),
        "params_bytes" => (&mut limits.params_bytes, 16 * MIB),
        "output_bytes" => (&mut limits.output_bytes, 16 * MIB),
        "error_chars" => (&mut limits.error_chars, 100_000),
        "tags" => (&mut limits.tags, 1_000),
        "name_chars" => (&mut limits.name_chars, usual.name_chars as u64),
        "key_chars" => (&mut limits.key_chars, usual.key_chars as u64),
        "tag_chars" => (&mut limits.tag_chars, usual.tag_chars as u64),
        "batch" => (&mut limits.batch, usual.batch as u64),
        "queues_per_tenant" => (&mut limits.queues_per_tenant, TENANT_MAX),
        "kinds_per_tenant" => (&mut limits.kinds_per_tenant, TENANT_MAX),
        "incidents_per_tenant" => (&mut limits.incidents_per_tenant, TENANT_MAX),
        "page" if *count < PAGE_MIN => {
            return Err(format!(
                "{count} is fewer than the HTTP API reads at once: the minimum is {PAGE_MIN}"
            ));
        }
        "page" => (&mut limits.page, usual.page as u64),
        "retries" => {
            let count = at_most(*count, u64::from(usual.retries))?;
            limits.retries = u32::try_from(count).unwrap_or(usual.retries);
            return Ok(());
        }
        _ => return Ok(()),
    };
    *place = usize::try_from(at_most(*count, most)?).unwrap_or(usize::MAX);
    Ok(())
}

fn at_most(count: u64, most: u64) -> Result<u64, String> {
    if count == 0 {
        return Err("a limit of zero lets nothing through: the minimum is 1".to_owned());
    }
    if count > most {
        return Err(format!("{count} is more than this version can hold: the maximum is {most}"));
    }
    Ok(count)
}

fn at_most_span(span: Duration, most: Duration) -> Result<Duration, String> {
    if span > most {
        return Err(format!("it is longer than {} days", most.as_secs() / 86_400));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_refused_when_nothing_could_pass_it_or_no_store_could_hold_it() {
        // L20
        for (word, count, problem) in [
            ("batch", 0, Some("a limit of zero lets nothing through: the minimum is 1")),
            ("batch", 1, None),
            ("page", 99, Some("99 is fewer than the HTTP API reads at once: the minimum is 100")),
            ("page", 100, None),
            ("page", 1_001, Some("1001 is more than this version can hold: the maximum is 1000")),
        ] {
            let taken = take(&mut Limits::default(), word, &PlainValue::Count(count));
            assert_eq!(taken.err().as_deref(), problem, "{word} = {count}");
        }
    }
}
