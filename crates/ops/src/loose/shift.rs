//! The difference between the indentation of a file and of a text, applied to new lines.
//!
//! Either every line gains or loses the same blanks, or one side has tabs for a fixed number of spaces on
//! the other. Any other difference is unknown.

/// The indentation of a line in the text and in the file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) old: Vec<u8>,
    pub(super) here: Vec<u8>,
}

pub(super) struct Shift {
    /// The known pairs, in order.
    pairs: Vec<Pair>,
    by: By,
}

/// The rule for an indentation that the text does not have.
enum By {
    /// These blanks come before it.
    More(Vec<u8>),
    /// These blanks at its start go.
    Less(Vec<u8>),
    /// A fixed ratio between two indentation characters, counted from the first pair.
    Unit { old: (u8, usize), here: (u8, usize) },
    /// No rule is known.
    Unknown,
}

impl Shift {
    /// Returns the difference, or nothing where it is not the same for all lines.
    pub(super) fn new(mut pairs: Vec<Pair>) -> Option<Self> {
        pairs.sort();
        pairs.dedup();
        let first = pairs.first()?;
        let more = first.here.strip_suffix(first.old.as_slice()).unwrap_or_default();
        let less = first.old.strip_suffix(first.here.as_slice()).unwrap_or_default();
        let by = if pairs.iter().all(|pair| pair.here.strip_prefix(more) == Some(&pair.old)) {
            By::More(more.to_vec())
        } else if pairs.iter().all(|pair| pair.old.strip_prefix(less) == Some(&pair.here)) {
            By::Less(less.to_vec())
        } else {
            unit(&pairs)?
        };
        Some(Self { pairs, by })
    }

    /// Returns the indentation in the file for one of the replacement.
    pub(super) fn of(&self, indent: &[u8]) -> Option<Vec<u8>> {
        if let Some(pair) = self.pairs.iter().find(|pair| pair.old == indent) {
            return Some(pair.here.clone());
        }
        let one_sign = b" \t".iter().any(|sign| {
            let pairs = self.pairs.iter().all(|pair| is_all(&pair.old, *sign, &pair.here, *sign));
            pairs && is_all(indent, *sign, &[], *sign)
        });
        match &self.by {
            By::More(more) if one_sign => Some([more, indent].concat()),
            By::Less(less) if one_sign => indent.strip_prefix(less.as_slice()).map(<[u8]>::to_vec),
            By::More(_) | By::Less(_) | By::Unknown => None,
            By::Unit { old: (old_sign, old), here: (sign, here) } => {
                let first = self.pairs.first()?;
                if !is_all(indent, *old_sign, &[], *sign) {
                    return None;
                }
                let (from, to) = (first.old.len(), first.here.len());
                let n = match indent.len().checked_sub(from) {
                    Some(more) => to + scaled(more, *here, *old)?,
                    None => to.checked_sub(scaled(from - indent.len(), *here, *old)?)?,
                };
                Some(vec![*sign; n])
            }
        }
    }
}

/// Returns the ratio of two indentation characters, where all lines agree.
fn unit(pairs: &[Pair]) -> Option<By> {
    let (first, Some(next)) = (pairs.first()?, pairs.get(1)) else { return Some(By::Unknown) };
    let old_sign = *pairs.iter().find_map(|pair| pair.old.first())?;
    let sign = *pairs.iter().find_map(|pair| pair.here.first())?;
    let pure = pairs.iter().all(|pair| is_all(&pair.old, old_sign, &pair.here, sign));
    if !pure || old_sign == sign {
        return None;
    }
    let step = |pair: &Pair| {
        let old = pair.old.len().checked_sub(first.old.len())?;
        Some((old, pair.here.len().checked_sub(first.here.len())?))
    };
    let (old, here) = step(next)?;
    let (tabs, blanks) = if sign == b'\t' { (here, old) } else { (old, here) };
    let is_whole = 0 < tabs && 0 < blanks && blanks.is_multiple_of(tabs);
    let same = |pair: &Pair| step(pair).is_some_and(|(o, h)| 0 < o && o * here == h * old);
    let unit = By::Unit { old: (old_sign, old), here: (sign, here) };
    (is_whole && pairs.iter().skip(1).all(same)).then_some(unit)
}

/// Returns whether two indentations consist of one character each.
fn is_all(a: &[u8], sign_of_a: u8, b: &[u8], sign_of_b: u8) -> bool {
    a.iter().all(|byte| *byte == sign_of_a) && b.iter().all(|byte| *byte == sign_of_b)
}

/// Returns a number times a fraction, where the result is whole.
fn scaled(n: usize, up: usize, down: usize) -> Option<usize> {
    let all = n.checked_mul(up)?;
    (all.checked_rem(down)? == 0).then(|| all / down)
}
