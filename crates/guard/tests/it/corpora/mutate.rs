//! New commands out of those of the corpora: their words and signs put together otherwise.

/// Pieces that decide what a shell makes of what stands around them.
const SIGNS: &[&str] = &[
    ";",
    "&&",
    "||",
    "|",
    "&",
    ">",
    "<",
    ">>",
    "2>",
    "2>&1",
    "$(",
    ")",
    "(",
    "`",
    "\"",
    "'",
    "\\",
    "\n",
    "{",
    "}",
    "#",
    "!",
    "*",
    "?",
    "[",
    "]",
    "~",
    "$",
    "--",
    "-",
    "=",
    ",",
    "@",
    "+",
    ":",
    "../",
    "./",
    "/",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "$HOME",
    "-o",
    "-i",
    "-f",
    "-e",
    "-exec",
    "{}",
    "+",
    "\\;",
    "-0",
    "-print0",
    "xargs",
    "env",
    "time",
    "command",
    "timeout 1",
    "nice",
    "cd ..",
    "cd src",
    "cd dir-out",
    "if",
    "then",
    "fi",
    "pwned",
    "link-out",
    "dir-out",
    ".env",
    "--output=pwned",
    "-opwned",
    "w pwned",
    "-C",
    "-c",
];

/// Where numbers come from: the same ones for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        // xorshift64*, as in Vigna, "An experimental exploration of Marsaglia's xorshift generators".
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % n.max(1)
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// The most signs and characters of one noise.
const LONGEST_NOISE: usize = 4_000;

/// Returns signs and characters in any order, some of them many times.
pub(crate) fn noise(numbers: &mut Numbers) -> String {
    let n = match numbers.below(8) {
        0 => numbers.below(LONGEST_NOISE),
        _ => numbers.below(40),
    };
    let mut text = String::new();
    for _ in 0..n {
        match numbers.below(6) {
            0 => text.extend(char::from_u32(u32::try_from(numbers.below(0x3100)).unwrap())),
            1 => text.push(' '),
            2 => text.push_str(&numbers.one(SIGNS).repeat(numbers.below(30))),
            _ => text.push_str(numbers.one(SIGNS)),
        }
    }
    text
}

/// Puts new commands together.
pub(crate) struct Mutator<'c> {
    plain: Vec<&'c str>,
    words: Vec<&'c str>,
    numbers: Numbers,
}

impl<'c> Mutator<'c> {
    /// `plain` are commands to begin with, and words come from them and from `others`.
    pub(crate) fn new(plain: &[&'c str], others: &[&'c str], numbers: Numbers) -> Self {
        let short = others.iter().filter(|text| text.len() < 200);
        let words = plain.iter().chain(short).flat_map(|text| text.split([' ', '\n'])).collect();
        Self { plain: plain.to_vec(), words, numbers }
    }

    /// Returns a command that no person wrote.
    pub(crate) fn next(&mut self) -> String {
        let base = self.numbers.one(&self.plain);
        let mut words: Vec<String> = base.split(' ').map(str::to_owned).collect();
        for _ in 0..=self.numbers.below(4) {
            let at = self.numbers.below(words.len() + 1);
            let (word, sign) = (self.numbers.one(&self.words), self.numbers.one(SIGNS));
            match self.numbers.below(9) {
                0 | 1 => words.insert(at, word.to_owned()),
                2 => words.insert(at, sign.to_owned()),
                3 if at < words.len() => drop(words.remove(at)),
                4 if at < words.len() => words[at] = word.to_owned(),
                5 if at < words.len() => words[at].push_str(sign),
                6 if at < words.len() => {
                    let place = self.numbers.below(words[at].len() + 1);
                    if words[at].is_char_boundary(place) {
                        words[at].insert_str(place, sign);
                    }
                }
                7 => {
                    let other = self.numbers.one(&self.plain);
                    let between = self.numbers.one(&[";", "&&", "||", "|", "\n"]);
                    words.push(between.to_owned());
                    words.extend(other.split(' ').map(str::to_owned));
                }
                _ if at < words.len() => words[at] = format!("{}{word}", words[at]),
                _ => words.push(word.to_owned()),
            }
        }
        words.join(" ")
    }
}
