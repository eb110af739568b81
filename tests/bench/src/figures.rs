//! Figures of one run: per round, so that a ratio is of two values taken seconds apart.

/// The middle value, or the mean of the two; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}

/// The value that `share` (0 to 1) of all do not pass; 0 of none.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// What a line is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Commands a second.
    PerSecond,
    /// Millions of bytes of output a second.
    MbPerSecond,
    /// Millions of bytes.
    Mb,
}

/// What a line has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most so many times the physical limit's value.
    RatioAtMost(f64),
    /// At least so many times the physical limit's value.
    RatioAtLeast(f64),
    /// At most so much.
    AtMost(f64),
}

/// One measurement over all rounds.
pub struct Line {
    /// What is measured.
    pub name: &'static str,
    /// In what.
    pub unit: Unit,
    /// What it has to reach.
    pub goal: Goal,
    /// A value a round.
    pub ours: Vec<f64>,
    /// The physical limit's, in the same rounds.
    pub limit: Vec<f64>,
    /// OpenSSH's, in the same rounds.
    pub ssh: Vec<f64>,
    /// websockify's, in the same rounds; of tunnels alone.
    pub websockify: Vec<f64>,
}

impl Line {
    /// A line without values.
    pub fn new(name: &'static str, unit: Unit, goal: Goal) -> Self {
        let (ours, limit, ssh, websockify) = Default::default();
        Self {
            name,
            unit,
            goal,
            ours,
            limit,
            ssh,
            websockify,
        }
    }

    /// The median over the rounds of the ratio of `values` to the limit.
    pub fn ratio(&self, values: &[f64]) -> Option<f64> {
        let pairs = values.iter().zip(&self.limit);
        let ratios: Vec<f64> = pairs.map(|(value, limit)| value / limit).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    /// What is compared with the goal.
    pub fn reached(&self) -> f64 {
        match self.goal {
            Goal::AtMost(_) => median(&self.ours),
            Goal::RatioAtMost(_) | Goal::RatioAtLeast(_) => self.ratio(&self.ours).unwrap_or(0.0),
        }
    }

    /// Whether the goal is met.
    pub fn is_met(&self) -> bool {
        match self.goal {
            Goal::RatioAtLeast(least) => self.reached() >= least,
            Goal::RatioAtMost(most) | Goal::AtMost(most) => self.reached() <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_values_of_the_same_round() {
        let mut line = Line::new("x", Unit::Ms, Goal::RatioAtMost(1.5));
        line.limit = vec![1.0, 10.0, 2.0];
        line.ours = vec![1.4, 14.0, 9.0];
        assert_eq!(line.reached(), 1.4);
        assert!(line.is_met());
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), 198.0);
        assert_eq!(percentile(&[3.0], 0.99), 3.0);
        assert_eq!(percentile(&[], 0.99), 0.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
