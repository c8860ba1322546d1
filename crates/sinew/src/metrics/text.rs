//! Parses, adds and writes the Prometheus text that sinew exports.
//!
//! sinew exports only counters and histograms, whose lines are all sums. So the total of several processes is
//! the sum of their lines by name.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

/// The first line of a metrics file; a file without it is not sinew's.
pub(super) const HEADER: &str = "# Written by sinew; every process adds to what stands here.";

/// A parse error and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricsProblem {
    line: usize,
    what: &'static str,
}

impl fmt::Display for MetricsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// The lines of one metric family.
#[derive(Debug, Clone, PartialEq)]
struct Family {
    name: String,
    help: String,
    kind: String,
    /// The text before each value, and the value, in file order.
    samples: Vec<(String, f64)>,
}

/// A parsed metrics text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Text(Vec<Family>);

impl Text {
    /// Parses an empty file, or one with the header.
    pub(super) fn read_file(text: &str) -> Result<Self, MetricsProblem> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        match text.split_once('\n') {
            Some((HEADER, rest)) => Self::read(rest)
                .map_err(|problem| MetricsProblem { line: problem.line + 1, ..problem }),
            _ => Err(MetricsProblem { line: 1, what: "not a file of sinew" }),
        }
    }

    /// Parses a text. A line that sinew would not write is an error.
    pub(super) fn read(text: &str) -> Result<Self, MetricsProblem> {
        let mut families: Vec<Family> = Vec::new();
        let mut lines = text.lines().zip(1..);
        while let Some((line, at)) = lines.next() {
            let problem = |what| MetricsProblem { line: at, what };
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or_else(|| problem("no help"))?;
                if name.is_empty() || families.iter().any(|family| family.name == name) {
                    return Err(problem("no new name"));
                }
                let kind = lines.next().and_then(|(line, _)| kind(line, name));
                let kind = kind.ok_or(MetricsProblem { line: at + 1, what: "no type of sums" })?;
                let (name, help) = (name.to_owned(), help.to_owned());
                families.push(Family { name, help, kind: kind.to_owned(), samples: Vec::new() });
                continue;
            }
            let family = families.last_mut().ok_or_else(|| problem("no name before it"))?;
            let (key, value) = line.rsplit_once(' ').ok_or_else(|| problem("no value"))?;
            let value: f64 = value.parse().map_err(|_| problem("no number"))?;
            if !key.starts_with(&*family.name) {
                return Err(problem("another name than the one above"));
            }
            if !value.is_finite() || value < 0.0 {
                return Err(problem("no sum"));
            }
            family.samples.push((key.to_owned(), value));
        }
        Ok(Self(families))
    }

    /// Adds the difference between `now` and `before`.
    pub(super) fn add(&mut self, now: &Self, before: &Self) {
        for family in &now.0 {
            let before = before.0.iter().find(|earlier| earlier.name == family.name);
            let before: HashMap<&str, f64> =
                before.iter().flat_map(|f| &f.samples).map(|(key, n)| (&**key, *n)).collect();
            let at = self.0.iter().position(|known| known.name == family.name);
            let at = at.unwrap_or_else(|| {
                self.0.push(Family { samples: Vec::new(), ..family.clone() });
                self.0.len() - 1
            });
            let Some(sums) = self.0.get_mut(at) else { continue };
            let known = sums.samples.iter().enumerate();
            let known: HashMap<String, usize> =
                known.map(|(at, (key, _))| (key.clone(), at)).collect();
            for (key, value) in &family.samples {
                let more = value - before.get(&**key).copied().unwrap_or_default();
                match known.get(key).and_then(|at| sums.samples.get_mut(*at)) {
                    Some((_, sum)) => *sum += more,
                    None => sums.samples.push((key.clone(), more)),
                }
            }
        }
    }

    /// Returns the text with its header.
    pub(super) fn to_file(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for Family { name, help, kind, samples } in &self.0 {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (key, value) in samples {
                let _ = writeln!(text, "{key} {value}");
            }
        }
        text
    }
}

/// Returns the type in a `# TYPE` line of a name, if its values are sums.
fn kind<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let kind = line.strip_prefix("# TYPE ")?.strip_prefix(name)?.strip_prefix(' ')?;
    ["counter", "histogram"].contains(&kind).then_some(kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"1 2\"} 3\n";

    #[test]
    fn texts_add_up_line_by_line() {
        let other = "# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"2\"} 1\n\
                     # HELP b Times.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 2\nb_sum 0.5\n\
                     b_count 2\n";
        let added = "a_total{x=\"1 2\"} 3\na_total{x=\"2\"} 1\n";
        for (there, now, before, expected) in [
            ("", ONE, "", ONE.to_owned()),
            (ONE, ONE, "", ONE.replace(" 3\n", " 6\n")),
            (ONE, ONE, ONE, ONE.to_owned()),
            (ONE, "", "", ONE.to_owned()),
            (ONE, other, "", other.replace("a_total{x=\"2\"} 1\n", added)),
        ] {
            let mut sum = Text::read(there).unwrap();
            sum.add(&Text::read(now).unwrap(), &Text::read(before).unwrap());
            assert_eq!(sum.to_file(), format!("{HEADER}\n{expected}"), "{there} + {now}");
        }
    }

    #[test]
    fn what_sinew_does_not_write_is_refused() {
        for (text, line, what) in [
            (String::from("root:x:0:0\n"), 1, "not a file of sinew"),
            (ONE.to_owned(), 1, "not a file of sinew"),
            (format!("{HEADER}\na 1\n"), 2, "no name before it"),
            (format!("{HEADER}\n{ONE}b_total 1\n"), 5, "another name than the one above"),
            (format!("{HEADER}\n{ONE}a_total x\n"), 5, "no number"),
            (format!("{HEADER}\n{ONE}a_total -1\n"), 5, "no sum"),
            (format!("{HEADER}\n{ONE}a_total NaN\n"), 5, "no sum"),
            (format!("{HEADER}\n{ONE}torn\n"), 5, "no value"),
            (format!("{HEADER}\n# HELP a\n"), 2, "no help"),
            (format!("{HEADER}\n# HELP a b\n# TYPE a gauge\n"), 3, "no type of sums"),
            (format!("{HEADER}\n# HELP a b\n"), 3, "no type of sums"),
            (format!("{HEADER}\n{ONE}{ONE}"), 5, "no new name"),
        ] {
            assert_eq!(Text::read_file(&text), Err(MetricsProblem { line, what }), "{text}");
        }
        assert_eq!(Text::read_file(""), Ok(Text::default()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_comes_back(text in "(# (HELP|TYPE) )?[a-c \n0-9#{}=\"]{0,80}") {
            if let Ok(read) = Text::read(&text) {
                prop_assert_eq!(Text::read_file(&read.to_file()), Ok(read));
            }
        }
    }
}
