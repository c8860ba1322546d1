//! Series of samples, and measuring several sides in turns.
//!
//! A shared machine slows down and speeds up while a row is measured. So the sides of a row take
//! turns within each round, every other round in the opposite order, and a row compares medians of the same run. There
//! are no confidence intervals: a row that misses a gate is measured anew, and both answers are for a person to read.

use anyhow::{Context, Result};

/// The samples of one side.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(Vec<f64>);

impl Series {
    pub(super) fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub(super) fn n(&self) -> usize {
        self.0.len()
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(super) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(super) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Returns the sample below which this share of all samples lies, NaN where there are none.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let place = share * last as f64;
        let low = sorted.get(place.floor() as usize).copied().unwrap_or(f64::NAN);
        let high = sorted.get(place.ceil() as usize).copied().unwrap_or(f64::NAN);
        low + (high - low) * place.fract()
    }
}

/// One side of a row: who it is, and what takes one turn and adds its samples.
pub(super) struct Side<'a> {
    name: &'static str,
    turn: Box<Turn<'a>>,
}

type Turn<'a> = dyn FnMut(&mut Series) -> Result<()> + 'a;

impl<'a> Side<'a> {
    pub(super) fn new(
        name: &'static str,
        turn: impl FnMut(&mut Series) -> Result<()> + 'a,
    ) -> Self {
        Self { name, turn: Box::new(turn) }
    }
}

/// The series of the sides, in the order of the sides.
#[derive(Debug, Default)]
pub(super) struct Measured(Vec<(&'static str, Series)>);

impl Measured {
    fn of_sides(sides: &[Side<'_>]) -> Self {
        Self(sides.iter().map(|side| (side.name, Series::default())).collect())
    }

    /// Returns the series of a side, if that side took part.
    pub(super) fn of(&self, name: &str) -> Option<&Series> {
        self.0.iter().find(|(side, _)| *side == name).map(|(_, series)| series)
    }

    /// Returns the median of a side, if that side took part.
    pub(super) fn median(&self, name: &str) -> Option<f64> {
        self.of(name).map(Series::median)
    }

    /// Returns how many times the median of `over` the median of `side` is, if both took part.
    pub(super) fn ratio(&self, side: &str, over: &str) -> Option<f64> {
        Some(self.median(side)? / self.median(over)?)
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = (&'static str, &Series)> {
        self.0.iter().map(|(name, series)| (*name, series))
    }
}

/// Lets every side take one turn that does not count, and then `n_rounds` turns in alternation.
pub(super) fn in_turns(n_rounds: usize, mut sides: Vec<Side<'_>>) -> Result<Measured> {
    for side in &mut sides {
        (side.turn)(&mut Series::default()).with_context(|| side.name)?;
    }
    let mut measured = Measured::of_sides(&sides);
    for round in 0..n_rounds {
        let mut turns: Vec<_> = sides.iter_mut().zip(&mut measured.0).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for (side, (name, series)) in turns {
            (side.turn)(series).with_context(|| *name)?;
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[track_caller]
    fn check(samples: &[f64], median: f64, min: f64, p99: f64) {
        let series = Series(samples.to_vec());
        assert_eq!((series.median(), series.min(), series.quantile(0.99)), (median, min, p99));
    }

    #[test]
    fn medians_lie_between_the_middle_samples() {
        check(&[3.0], 3.0, 3.0, 3.0);
        check(&[9.0, 1.0, 5.0], 5.0, 1.0, 8.92);
        check(&[4.0, 1.0, 2.0, 3.0], 2.5, 1.0, 3.9699999999999998);
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn sides_alternate_after_a_turn_that_does_not_count() {
        let order = RefCell::new(String::new());
        let side = |name: &'static str| {
            let order = &order;
            Side::new(name, move |series| {
                order.borrow_mut().push_str(name);
                series.push(1.0);
                Ok(())
            })
        };
        let measured = in_turns(3, vec![side("a"), side("b")]).expect("measured");
        assert_eq!(order.borrow().as_str(), "ababbaab");
        assert_eq!(measured.of("a").map(Series::n), Some(3));
        assert_eq!(measured.ratio("a", "b"), Some(1.0));
        assert_eq!(measured.ratio("a", "c"), None);
    }
}
