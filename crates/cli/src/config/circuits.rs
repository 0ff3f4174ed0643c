//! `[circuits.NAME]`: when the circuit of a dependency opens and closes (H3).

use backstop::circuits::CircuitSettings;

use super::read::PlainValue;

/// Takes one key over.
pub(super) fn take(circuit: &mut CircuitSettings, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("window", PlainValue::Span(span)) => circuit.window = *span,
        ("open", PlainValue::Span(span)) => circuit.open = *span,
        ("slow_start", PlainValue::Span(span)) => circuit.slow_start = *span,
        ("failure_rate", PlainValue::Count(count)) => {
            circuit.failure_rate = u8::try_from(*count).unwrap_or(u8::MAX);
        }
        ("min_calls", PlainValue::Count(count)) => circuit.min_calls = *count,
        ("probes", PlainValue::Count(count)) => circuit.probes = *count,
        _ => {}
    }
    circuit.check().map_err(|problem| problem.to_string())
}
