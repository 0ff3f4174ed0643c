//! What all rounds found out together: medians, ratios, and their JSON.

use super::contender::Contender;
use super::figures::{median, ratio};
use super::json::Json;
use super::measure::{ComparedMeasure, MEASURES, MeasuredRound};
use super::options::CompareSizes;

/// The whole comparison.
#[derive(Debug)]
pub(crate) struct Results {
    /// Versions of the servers, the number of cores and the like.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) sizes: CompareSizes,
    pub(crate) rows: Vec<ResultRow>,
}

/// One contender.
#[derive(Debug)]
pub(crate) struct ResultRow {
    pub(crate) contender: &'static Contender,
    pub(crate) version: String,
    pub(crate) settings: String,
    /// Why it takes no part at all.
    pub(crate) absent: Option<String>,
    found: Vec<MeasuredRound>,
}

/// One figure of one contender.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ResultCell {
    /// The median of its runs.
    Value { median: f64, runs: Vec<f64>, partial: bool },
    /// It should be there and is not, for this reason.
    Absent(String),
    /// There is no such figure for this contender.
    None,
}

impl ResultRow {
    /// A contender of which nothing is known yet.
    pub(crate) fn new(contender: &'static Contender) -> Self {
        Self { contender, version: String::new(), settings: String::new(), absent: None, found: Vec::new() }
    }

    /// Adds what a round found.
    pub(crate) fn add(&mut self, found: Vec<MeasuredRound>) {
        self.found.extend(found);
    }

    /// What all rounds say about a measure. A contender that failed in one round has no median to show.
    pub(crate) fn cell(&self, measure: &ComparedMeasure) -> ResultCell {
        if let Some(reason) = &self.absent {
            return ResultCell::Absent(reason.clone());
        }
        let found: Vec<&MeasuredRound> =
            self.found.iter().filter(|found| found.measure == measure.name).collect();
        if let Some(reason) = found.iter().find_map(|found| found.value.as_ref().err()) {
            return ResultCell::Absent(reason.clone());
        }
        let runs: Vec<f64> = found.iter().filter_map(|found| found.value.as_ref().ok().copied()).collect();
        let partial = found.iter().any(|found| found.partial);
        median(&runs).map_or(ResultCell::None, |median| ResultCell::Value { median, runs, partial })
    }

    /// The median of a measure.
    pub(crate) fn value(&self, measure: &ComparedMeasure) -> Option<f64> {
        if let ResultCell::Value { median, .. } = self.cell(measure) { Some(median) } else { None }
    }
}

impl Results {
    /// How many times Backstop's figure on the same kind of store this row's is. A figure that is a ratio itself stands
    /// for itself.
    pub(crate) fn ratio(&self, row: &ResultRow, measure: &ComparedMeasure) -> Option<f64> {
        if measure.is_ratio() {
            return None;
        }
        let base = self.rows.iter().find(|other| other.contender.name == row.contender.base())?;
        ratio(row.value(measure)?, base.value(measure)?)
    }

    /// True when every figure of Backstop itself is there. A comparison without them is not worth a page: a disk that
    /// was full, or a server that fell over, has spoiled more than what is missing.
    pub(crate) fn is_whole(&self) -> bool {
        let mut own = self.rows.iter().filter(|row| row.contender.base() == row.contender.name);
        own.all(|row| MEASURES.iter().all(|measure| !matches!(row.cell(measure), ResultCell::Absent(_))))
    }

    /// Everything, every run included.
    pub(crate) fn json(&self) -> Json {
        let facts = self.facts.iter().map(|(name, value)| ((*name).to_owned(), Json::text(value.as_str())));
        let rows = self.rows.iter().map(|row| self.row_json(row)).collect();
        let number = |number: u32| Json::number(f64::from(number));
        Json::object([
            ("facts", Json::Object(facts.collect())),
            ("jobs", number(self.sizes.jobs)),
            ("singles", number(self.sizes.singles)),
            ("latency_seconds", number(self.sizes.latency_seconds)),
            ("rounds", number(self.sizes.rounds)),
            ("drain_limit", Json::number(self.sizes.drain_limit.as_secs_f64())),
            ("pinned_rounds", number(self.sizes.pinned_rounds)),
            ("pinned_sessions", number(self.sizes.pinned_sessions)),
            ("repeats", number(self.sizes.repeats)),
            ("backlog", number(self.sizes.backlog)),
            ("history", number(self.sizes.history)),
            ("storm_seconds", number(self.sizes.storm_seconds)),
            ("idle_seconds", number(self.sizes.idle_seconds)),
            ("contenders", Json::List(rows)),
        ])
    }

    fn row_json(&self, row: &ResultRow) -> Json {
        let measures = MEASURES.iter().filter_map(|measure| {
            let cell = match row.cell(measure) {
                ResultCell::None => return None,
                ResultCell::Absent(reason) => Json::object([("absent", Json::text(reason))]),
                ResultCell::Value { median, runs, partial } => Json::object([
                    ("median", Json::number(rounded(median))),
                    ("unit", Json::text(measure.unit)),
                    (
                        "ratio",
                        self.ratio(row, measure).map_or(Json::Null, |ratio| Json::number(rounded(ratio))),
                    ),
                    ("partial", Json::Flag(partial)),
                    ("runs", Json::List(runs.into_iter().map(|run| Json::number(rounded(run))).collect())),
                ]),
            };
            Some((measure.name.to_owned(), cell))
        });
        Json::object([
            ("name", Json::text(row.contender.name)),
            ("version", Json::text(row.version.as_str())),
            ("settings", Json::text(row.settings.as_str())),
            ("held_against", Json::text(row.contender.base())),
            ("measures", Json::Object(measures.collect())),
        ])
    }
}

/// Six digits that count: more than any benchmark has.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::contender::ALL;
    use super::*;

    /// A comparison of three contenders, one of which is absent and one of which failed in a phase.
    pub(crate) fn sample() -> Results {
        let found = |measure: &str, value: Result<f64, &str>, partial: bool| MeasuredRound {
            measure: measure.to_owned(),
            value: value.map_err(str::to_owned),
            partial,
        };
        let contender = |name: &str| ALL.iter().find(|contender| contender.name == name).unwrap();
        let mut ours = ResultRow::new(contender("backstop-postgres"));
        ours.version = "0.1.0".to_owned();
        for drain in [40_000.0, 60_000.0, 50_000.0] {
            ours.add(vec![found("drain", Ok(drain), false), found("latency_100_p99", Ok(2.0), false)]);
        }
        let mut peer = ResultRow::new(contender("pg-boss"));
        peer.add(vec![found("drain", Ok(5_000.0), true), found("latency_100_p99", Err("too slow"), false)]);
        let mut gone = ResultRow::new(contender("awa"));
        gone.absent = Some("cargo could not build it".to_owned());
        let facts = vec![("postgresql", "15".to_owned())];
        Results { facts, sizes: CompareSizes::FULL, rows: vec![ours, peer, gone] }
    }

    fn measure(name: &str) -> &'static ComparedMeasure {
        MEASURES.iter().find(|measure| measure.name == name).unwrap()
    }

    #[test]
    fn the_median_counts_and_ratios_are_to_backstop() {
        let results = sample();
        assert_eq!(results.rows[0].value(measure("drain")), Some(50_000.0));
        assert_eq!(results.ratio(&results.rows[1], measure("drain")), Some(0.1));
        assert_eq!(results.ratio(&results.rows[1], measure("latency_100_p99")), None);
        let mut flat = sample();
        for row in &mut flat.rows {
            row.add(vec![MeasuredRound {
                measure: "pinned_ratio".to_owned(),
                value: Ok(0.9),
                partial: false,
            }]);
        }
        assert_eq!(flat.ratio(&flat.rows[1], measure("pinned_ratio")), None, "it is one already");
    }

    #[test]
    fn what_is_absent_says_why_and_what_does_not_exist_says_nothing() {
        let results = sample();
        assert_eq!(
            results.rows[1].cell(measure("latency_100_p99")),
            ResultCell::Absent("too slow".to_owned())
        );
        assert!(
            matches!(results.rows[2].cell(measure("drain")), ResultCell::Absent(why) if why.contains("cargo"))
        );
        assert_eq!(results.rows[0].cell(measure("memory")), ResultCell::None);
    }

    #[test]
    fn a_figure_of_our_own_that_is_absent_spoils_the_whole() {
        let mut results = sample();
        assert!(results.is_whole(), "others may be absent");
        let full = Err("the disk is full".to_owned());
        results.rows[0].add(vec![MeasuredRound {
            measure: "memory".to_owned(),
            value: full,
            partial: false,
        }]);
        assert!(!results.is_whole());
    }

    #[test]
    fn the_json_has_every_run_and_can_be_read() {
        let json = Json::parse(&sample().json().pretty()).unwrap();
        let Some(Json::List(rows)) = json.get("contenders") else { panic!("{json}") };
        let drain = rows[0].get("measures").and_then(|measures| measures.get("drain")).unwrap();
        assert_eq!(drain.numbers_at("runs"), Some(vec![40_000.0, 60_000.0, 50_000.0]));
        assert_eq!(drain.number_at("median"), Some(50_000.0));
    }
}
