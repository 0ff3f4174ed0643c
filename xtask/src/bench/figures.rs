//! The arithmetic of the comparison: medians, quantiles, ratios, and how numbers are shown.

/// The middle of some runs; of an even number of them the mean of the two in the middle.
pub(crate) fn median(runs: &[f64]) -> Option<f64> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(upper, *sorted.get(sorted.len() / 2 - 1)?))
}

/// The value that this share of all, in thousandths, does not exceed. Nothing is made up between two values.
pub(crate) fn quantile(sorted: &[f64], per_mille: usize) -> Option<f64> {
    let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied()
}

/// How many times the base a value is.
pub(crate) fn ratio(value: f64, base: f64) -> Option<f64> {
    Some(value / base).filter(|ratio| ratio.is_finite())
}

/// A number with three or more digits that count, and its thousands apart.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => grouped(&format!("{value:.0}")),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size > 0.0 => format!("{value:.4}"),
        _ => "0".to_owned(),
    }
}

/// A ratio as it stands behind a value.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{ratio:.0}×"),
        ratio if ratio >= 10.0 => format!("{ratio:.1}×"),
        ratio if ratio >= 0.01 => format!("{ratio:.2}×"),
        ratio => format!("{ratio:.4}×"),
    }
}

fn grouped(digits: &str) -> String {
    let first = digits.len() % 3;
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first && digits.chars().nth(at - 1).is_some_and(|c| c.is_ascii_digit()) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_run() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let found = [500, 990, 999].map(|per_mille| quantile(&values, per_mille));
        assert_eq!(found, [Some(500.0), Some(990.0), Some(999.0)]);
        assert_eq!(quantile(&[5.0], 999), Some(5.0));
        assert_eq!(quantile(&[], 500), None);
    }

    #[test]
    fn a_ratio_to_nothing_is_none() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!((ratio(3.0, 0.0), ratio(0.0, 0.0)), (None, None));
    }

    #[test]
    fn numbers_are_shown_with_the_digits_that_count() {
        let all = [1_234_567.0, 999.9, 123.4, 12.34, 1.234, 0.012_34, 0.0].map(shown);
        assert_eq!(all, ["1,234,567", "1,000", "123", "12.3", "1.23", "0.0123", "0"]);
        assert_eq!([250.0, 12.0, 0.5, 0.001].map(times), ["250×", "12.0×", "0.50×", "0.0010×"]);
    }
}
