//! Shell builtins that a plain command may use.

use sinew_tool::Unclear;

use super::files;
use super::plain::{Part, Writer};

impl Writer<'_> {
    /// Returns what runs if a word is a shell builtin.
    pub(super) fn built_in(
        &mut self,
        name: &str,
        args: &[String],
        part: Part,
        has_variables: bool,
    ) -> Result<Option<Vec<String>>, Unclear> {
        let own = || std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect();
        let option = |word: &str| {
            Err(Unclear::new(
                "shell.option",
                format!("`{word}` of {name} is not known to only read"),
            ))
        };
        match name {
            ":" | "true" | "false" | "echo" => Ok(Some(own())),
            "pwd" => match args.iter().find(|arg| !matches!(arg.as_str(), "-L" | "-P")) {
                Some(word) => option(word),
                None => Ok(Some(own())),
            },
            "printf" => {
                let (is_ended, format) = match args {
                    [end, format, ..] if end == "--" => (true, Some(format)),
                    _ => (false, args.first()),
                };
                match format {
                    Some(word) if word.starts_with('-') && !is_ended => option(word),
                    Some(format) if !is_plain_format(format) => option(format),
                    _ => Ok(Some(own())),
                }
            }
            "type" | "which" => {
                match args.iter().find(|arg| arg.starts_with('-') && *arg != "-a") {
                    Some(word) => option(word),
                    None if name == "type" => Ok(Some(own())),
                    None => {
                        let (path, _) = self.find(name)?;
                        Ok(Some(std::iter::once(path).chain(args.iter().cloned()).collect()))
                    }
                }
            }
            "command" => match args.first().map(String::as_str) {
                Some("-v" | "-V") => Ok(Some(own())),
                Some(word) if word.starts_with('-') => option(word),
                _ => {
                    let run = self.program(args, part, has_variables, 1)?;
                    Ok(Some(run))
                }
            },
            "test" | "[" => {
                self.test(name, args)?;
                Ok(Some(own()))
            }
            "cd" => self.change_directory(args, part, has_variables).map(Some),
            _ => Ok(None),
        }
    }

    fn change_directory(
        &mut self,
        args: &[String],
        part: Part,
        has_variables: bool,
    ) -> Result<Vec<String>, Unclear> {
        let unclear = |why: &str| Unclear::new("shell.directory", why);
        let args = args.strip_prefix(&[String::from("--")]).unwrap_or(args);
        let [dir] = args else { return Err(unclear("`cd` names no directory")) };
        if dir.starts_with('-') || has_variables {
            return Err(unclear("where `cd` leads is only known when it runs"));
        }
        if part != Part::Alone {
            return Err(unclear("whether `cd` runs is only known when it does"));
        }
        let real = files::check(self.scene, &self.cwd, dir)?;
        if !files::is_directory(self.scene.files, &real) {
            return Err(unclear("`cd` names no directory"));
        }
        let text = real
            .to_str()
            .ok_or_else(|| unclear("`cd` leads to a path that is not UTF-8"))?
            .to_owned();
        self.cwd = real;
        Ok(vec![String::from("cd"), String::from("--"), text])
    }

    fn test(&self, name: &str, args: &[String]) -> Result<(), Unclear> {
        let args = match (name, args.split_last()) {
            ("[", Some((last, args))) if last == "]" => args,
            ("[", _) => return Err(Unclear::new("shell.syntax", "`[` has no end")),
            _ => args,
        };
        let unclear = |word: &str| {
            Err(Unclear::new(
                "shell.option",
                format!("`{word}` of {name} is not known to only read"),
            ))
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let args = args.strip_prefix(&["!"]).unwrap_or(&args);
        let is_number = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty()
                && digits.len() < 19
                && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        match args {
            [] | [_] => Ok(()),
            ["-n" | "-z", _] => Ok(()),
            [
                "-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-L" | "-h" | "-b" | "-c" | "-p"
                | "-S" | "-u" | "-g" | "-k" | "-O" | "-G" | "-N" | "-a",
                file,
            ] => files::check_operand(self.scene, &self.cwd, file),
            [_, "=" | "==" | "!=", _] => Ok(()),
            [one, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge", other]
                if is_number(one) && is_number(other) =>
            {
                Ok(())
            }
            [one, "-nt" | "-ot" | "-ef", other] => {
                files::check_operand(self.scene, &self.cwd, one)?;
                files::check_operand(self.scene, &self.cwd, other)
            }
            [word, ..] => unclear(word),
        }
    }
}

/// Returns whether a `printf` format only writes: `%n` sets a variable, `*` takes a width from an argument.
fn is_plain_format(format: &str) -> bool {
    let mut parts = format.split('%');
    parts.next();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%` is a literal sign, and text follows.
            if parts.next().is_none() {
                return false;
            }
            continue;
        }
        let rest = part.trim_start_matches(['-', '+', ' ', '#', '0']);
        let Some(rest) = without_digits(rest) else { return false };
        let Some(rest) = rest.strip_prefix('.').map_or(Some(rest), without_digits) else {
            return false;
        };
        if !rest.starts_with([
            's', 'd', 'i', 'o', 'u', 'x', 'X', 'e', 'E', 'f', 'F', 'g', 'G', 'c', 'b', 'q',
        ]) {
            return false;
        }
    }
    true
}

/// Strips at most four digits; `None` if there are more.
fn without_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (text.len() - rest.len() <= 4).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_printf_only_write() {
        for format in ["", "a", "%s", "%%", "%%n", "%-5s|%05.2f", "a%%b%d\n", "%s%%", "%.s", "%q"] {
            assert!(is_plain_format(format), "{format}");
        }
        let others = [
            "%n", "abc%n", "%5n", "%*s", "%", "%%%", "%%%n", "%1$s", "%ln", "%hhn", "%(%s)T",
            "%10000d", "%.12345d", "%-%%n", "%-", "%d%n", "%'d",
        ];
        for format in others {
            assert!(!is_plain_format(format), "{format}");
        }
    }
}
