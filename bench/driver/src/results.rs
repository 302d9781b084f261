//! What was measured: for each contender in each case the figures of every round, and what they say together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trial::Trial;

/// The figures of one run, by name; names end in their unit.
pub type Figures = BTreeMap<String, f64>;

/// One contender in one case.
#[derive(Debug, Serialize)]
pub struct Record {
    /// The measure: `a` to `i`.
    pub measure: char,
    /// What was done.
    pub case: String,
    /// Who did it.
    pub contender: String,
    /// The rounds that went well.
    pub rounds: Vec<Figures>,
    /// Why others did not, or why there were none.
    pub failures: Vec<String>,
    /// What the rounds say together.
    pub summary: BTreeMap<String, Spread>,
}

/// One figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` of none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

impl Record {
    /// Of a trial that has not run yet.
    pub fn new(trial: &Trial) -> Self {
        Self {
            measure: trial.measure,
            case: trial.case.clone(),
            contender: trial.contender.clone(),
            rounds: Vec::new(),
            failures: Vec::new(),
            summary: BTreeMap::new(),
        }
    }

    /// Works out the summary.
    pub fn summarize(&mut self) {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, value) in self.rounds.iter().flatten() {
            values.entry(name.clone()).or_default().push(*value);
        }
        let spreads = values.into_iter();
        self.summary = spreads
            .filter_map(|(name, values)| Some((name, Spread::of(values)?)))
            .collect();
    }

    /// A figure over all rounds.
    pub fn spread(&self, figure: &str) -> Option<Spread> {
        self.summary.get(figure).copied()
    }
}

/// All records, in the order in which they were planned.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Results(pub Vec<Record>);

impl Results {
    /// The median of a figure.
    pub fn median(&self, measure: char, case: &str, contender: &str, figure: &str) -> Option<f64> {
        let mut records = self.0.iter();
        let record =
            records.find(|r| r.measure == measure && r.case == case && r.contender == contender)?;
        Some(record.spread(figure)?.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_and_ends() {
        let odd = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        let even = Spread::of(vec![4.0, 1.0]).unwrap();
        assert_eq!(even.median, 2.5);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
