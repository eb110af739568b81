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
    /// At most what OpenSSH and websockify take.
    AheadInTime,
    /// At least what OpenSSH moves, and so many times what websockify does.
    AheadInRate(f64),
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

    /// Adds a round.
    pub fn add(&mut self, limit: f64, ours: f64) {
        self.limit.push(limit);
        self.ours.push(ours);
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
            _ => self.ratio(&self.ours).unwrap_or(0.0),
        }
    }

    /// Whether ours is at least `share` of a peer's, or less than it where that is better; also without the peer.
    fn is_ahead(&self, peer: &[f64], share: f64, less: bool) -> bool {
        let pairs = self.ours.iter().zip(peer);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        let ratio = median(&ratios);
        ratios.is_empty() || if less { ratio <= share } else { ratio >= share }
    }

    /// Whether the goal is met.
    pub fn is_met(&self) -> bool {
        match self.goal {
            Goal::RatioAtLeast(least) => self.reached() >= least,
            Goal::RatioAtMost(most) | Goal::AtMost(most) => self.reached() <= most,
            Goal::AheadInTime => {
                self.is_ahead(&self.ssh, 1.0, true) && self.is_ahead(&self.websockify, 1.0, true)
            }
            Goal::AheadInRate(share) => {
                self.is_ahead(&self.ssh, 1.0, false)
                    && self.is_ahead(&self.websockify, share, false)
            }
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
    fn peers_are_compared_with_where_they_are() {
        let mut line = Line::new("x", Unit::MbPerSecond, Goal::AheadInRate(0.7));
        line.ours = vec![80.0, 70.0];
        assert!(line.is_met());
        (line.ssh, line.websockify) = (vec![50.0, 50.0], vec![100.0, 100.0]);
        assert!(line.is_met());
        line.websockify = vec![200.0, 200.0];
        assert!(!line.is_met());
        line.goal = Goal::AheadInTime;
        assert!(!line.is_met(), "OpenSSH takes less");
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
