//! What a run may cost, in tokens or in dollars.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use sinew_tool::sync::lock;

use crate::model::Usage;

/// What a million tokens cost, in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of requests.
    pub input: f64,
    /// Of requests, as far as they came out of the provider's cache.
    pub cached: f64,
    /// Of answers.
    pub output: f64,
}

impl Prices {
    /// Returns what these tokens cost, in dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached);
        let dollars = fresh as f64 * self.input
            + usage.cached as f64 * self.cached
            + usage.output as f64 * self.output;
        dollars / 1e6
    }
}

/// The most that a run may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Tokens of requests and answers.
    Tokens(u64),
    /// Dollars, by the prices of the model.
    Dollars(f64),
}

impl Budget {
    /// Returns whether it is used up by these tokens, which cost so much.
    pub fn is_used(self, usage: &Usage, dollars: f64) -> bool {
        match self {
            Self::Tokens(most) => most <= usage.total(),
            Self::Dollars(most) => most <= dollars,
        }
    }
}

/// What an agent and its sub-agents cost together.
#[derive(Debug, Default)]
pub struct Spending(Mutex<(Usage, f64)>);

impl Spending {
    /// Adds the tokens of a message. Without prices they cost no dollars.
    pub fn add(&self, usage: &Usage, prices: Option<&Prices>) {
        let mut spent = lock(&self.0);
        spent.0.add(usage);
        spent.1 += prices.map_or(0.0, |prices| prices.cost(usage));
    }

    /// Returns the tokens.
    pub fn usage(&self) -> Usage {
        lock(&self.0).0
    }

    /// Returns whether a budget is used up.
    pub fn uses_up(&self, budget: Budget) -> bool {
        let (usage, dollars) = *lock(&self.0);
        budget.is_used(&usage, dollars)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(n) => write!(f, "{n} tokens"),
            Self::Dollars(dollars) => write!(f, "${dollars}"),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// Reads `200000`, `200k`, `1.5M` (tokens) or `$2.50`.
    fn from_str(written: &str) -> Result<Self, String> {
        let wrong = || format!("a budget is written like 200k, 1.5M or $2.50, not `{written}`");
        let (number, unit) = match written.strip_prefix('$') {
            Some(dollars) => (dollars, 0.0),
            None => match written.strip_suffix(['k', 'K']) {
                Some(thousands) => (thousands, 1e3),
                None => written.strip_suffix(['m', 'M']).map_or((written, 1.0), |m| (m, 1e6)),
            },
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !number.is_finite() || number <= 0.0 {
            return Err(wrong());
        }
        Ok(match unit {
            0.0 => Self::Dollars(number),
            unit => Self::Tokens((number * unit) as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_used() {
        for (written, expected) in [
            ("5000", Some(Budget::Tokens(5_000))),
            ("200k", Some(Budget::Tokens(200_000))),
            ("1.5M", Some(Budget::Tokens(1_500_000))),
            ("$2.50", Some(Budget::Dollars(2.5))),
            ("0", None),
            ("-1k", None),
            ("$", None),
            ("NaN", None),
            ("much", None),
        ] {
            assert_eq!(written.parse::<Budget>().ok(), expected, "{written}");
        }
        let usage = Usage { input: 1_000_000, cached: 600_000, output: 100_000 };
        let prices = Prices { input: 3.0, cached: 0.3, output: 15.0 };
        assert!((prices.cost(&usage) - 2.88).abs() < 1e-9, "{}", prices.cost(&usage));
        for (budget, used) in [
            (Budget::Tokens(1_100_000), true),
            (Budget::Tokens(1_100_001), false),
            (Budget::Dollars(2.88), true),
            (Budget::Dollars(2.89), false),
        ] {
            assert_eq!(budget.is_used(&usage, prices.cost(&usage)), used, "{budget}");
        }
    }
}
