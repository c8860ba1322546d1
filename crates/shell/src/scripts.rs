//! Checks that programs of `sed`, `awk` and `jq` only read.

use sinew_tool::Unclear;

fn unclear(program: &str, why: &str) -> Unclear {
    Unclear::new("shell.script", format!("its {program} program {why}"))
}

/// Words with which an awk program reaches beyond its input.
const OF_AWK: &[&str] = &[
    "system",
    "getline",
    "close",
    "fflush",
    "|",
    "@",
    "ENVIRON",
    "PROCINFO",
    "SYMTAB",
    "FUNCTAB",
    "ARGV",
    "ARGC",
    "extension",
    "load",
];

/// awk variables that hold number formats: a format may write where it should not.
pub(super) const FORMATS_OF_AWK: &[&str] = &["OFMT", "CONVFMT"];

/// Rejects an awk program that may do more than read its input, wherever the word is in it.
pub(super) fn check_awk(program: &str) -> Result<(), Unclear> {
    if let Some(word) = OF_AWK.iter().find(|word| program.contains(*word)) {
        return Err(unclear("awk", &format!("holds `{word}`")));
    }
    if program.replace(">=", "").contains('>') {
        return Err(unclear("awk", "holds `>`, which may write a file"));
    }
    Ok(())
}

/// Rejects a jq program that may do more than read its input.
pub(super) fn check_jq(program: &str) -> Result<(), Unclear> {
    let lower = program.to_ascii_lowercase();
    match ["env", "import", "include", "modulemeta"].iter().find(|word| lower.contains(**word)) {
        Some(word) => Err(unclear("jq", &format!("holds `{word}`"))),
        None => Ok(()),
    }
}

/// Rejects a sed program with commands that do more than shape its input.
pub(super) fn check_sed(program: &str) -> Result<(), Unclear> {
    let mut sed = Sed { left: program };
    loop {
        sed.skip(|c| c.is_ascii_whitespace() || c == ';' || c == '}');
        if sed.left.is_empty() {
            return Ok(());
        }
        sed.address()?;
        sed.command()?;
    }
}

struct Sed<'p> {
    left: &'p str,
}

impl Sed<'_> {
    fn peek(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.left.chars();
        let next = chars.next();
        self.left = chars.as_str();
        next
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.left = self.left.trim_start_matches(is_skipped);
    }

    /// Skips the address of a command.
    fn address(&mut self) -> Result<(), Unclear> {
        for _ in 0..2 {
            match self.peek() {
                Some('0'..='9' | '$' | '+' | '~') => {
                    self.skip(|c| c.is_ascii_digit() || matches!(c, '$' | '+' | '~'));
                }
                Some('/') => {
                    self.next();
                    self.until('/')?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                _ => {}
            }
            self.skip(|c| c == ' ');
            if self.peek() != Some(',') {
                break;
            }
            self.next();
            self.skip(|c| c == ' ');
        }
        self.skip(|c| matches!(c, ' ' | '!'));
        Ok(())
    }

    /// Skips a text up to its delimiter.
    fn until(&mut self, end: char) -> Result<(), Unclear> {
        let mut is_in_class = false;
        while let Some(c) = self.next() {
            match c {
                '\\' if self.next().is_some_and(|escaped| escaped != '\n') => {}
                '\\' => return Err(unclear("sed", "has an escape at the end of a line")),
                '\n' => return Err(unclear("sed", "has a text over several lines")),
                // Programs differ in whether a class may hold the delimiter.
                c if c == end && is_in_class => {
                    return Err(unclear("sed", "has a class of characters that may end its text"));
                }
                c if c == end => return Ok(()),
                '[' => is_in_class = true,
                ']' => is_in_class = false,
                _ => {}
            }
        }
        Err(unclear("sed", "has a text without an end"))
    }

    fn command(&mut self) -> Result<(), Unclear> {
        match self.next() {
            Some('{') => return Ok(()),
            Some('p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l') => {}
            Some('q' | 'Q') => self.skip(|c| c == ' ' || c.is_ascii_digit()),
            Some('s') => {
                let end = self.sign()?;
                self.until(end)?;
                self.until(end)?;
                self.skip(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9'));
            }
            Some('y') => {
                let end = self.sign()?;
                self.until(end)?;
                self.until(end)?;
            }
            Some(other) => {
                return Err(unclear(
                    "sed",
                    &format!("has the command `{other}`, which the policy cannot analyse"),
                ));
            }
            None => return Err(unclear("sed", "ends where a command should be")),
        }
        self.skip(|c| c == ' ');
        match self.peek() {
            None | Some(';' | '\n' | '}') => Ok(()),
            Some(other) => Err(unclear("sed", &format!("has `{other}` behind a command"))),
        }
    }

    /// Returns the delimiter between the parts of a command.
    fn sign(&mut self) -> Result<char, Unclear> {
        self.next()
            .filter(|sign| {
                sign.is_ascii_punctuation() && *sign != '\\' && *sign != '[' && *sign != ']'
            })
            .ok_or_else(|| unclear("sed", "has a command with an odd separator"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(judge: fn(&str) -> Result<(), Unclear>, plain: &[&str], others: &[&str]) {
        for program in plain {
            assert_eq!(judge(program), Ok(()), "{program}");
        }
        for program in others {
            assert!(judge(program).is_err(), "{program}");
        }
    }

    #[test]
    fn programs_of_sed_only_read() {
        check(
            check_sed,
            &[
                "p",
                "2p",
                "$p",
                "1,2p",
                "1~2d",
                "/a/,/b/p",
                "/a/I!d",
                "s/a/b/",
                "s/a/b/gp2",
                "s,a\\,b,c,g",
                "s|/x|/y|",
                "/x/{p;d}",
                "y/ab/cd/",
                "5q",
                "q;p",
                "",
                "\np\n",
                "s/[a-z]//",
                "/beta/ d",
            ],
            &[
                "w x",
                "s/a/b/w x",
                "s/a/touch x/e",
                "e",
                "1e touch x",
                "r x",
                "R x",
                "W x",
                "a x",
                "i\\\nx",
                "s/a/b",
                "s/[/]/w x/",
                "pw x",
                "$!w x",
                "s/a/b/;w x",
                "{w x",
                "p}w x",
                "s\nanb\nw x",
                "b;w x",
                "/a\\/w x",
                ":a;w x",
                "s/a/b\\\n/;w x",
                "=w x",
                "\\,a,w x",
                "y/a/b/w x",
                "0~3w x",
            ],
        );
    }

    #[test]
    fn programs_of_awk_and_jq_only_read() {
        check(
            check_awk,
            &["{print $1}", "NR==2", "END {print NR}", "$1 >= 3", "/a/ {n++} END {print n}"],
            &[
                "{print > \"x\"}",
                "{print | \"sh\"}",
                "BEGIN{system(\"x\")}",
                "{getline < \"x\"}",
                "@load \"x\"",
                "{print ENVIRON[\"X\"]}",
                "BEGIN{ARGV[1]=\"/etc/passwd\"}",
                "$1 > 3",
                "{print >> \"x\"}",
            ],
        );
        check(
            check_jq,
            &[".", ".a[] | keys"],
            &["env", "$ENV.X", "import \"x\" as x; .", "input | $__env"],
        );
    }
}
