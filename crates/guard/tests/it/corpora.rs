//! The corpora of commands: ways around a judge, and plain reads that need no question.
//!
//! Both were written before there was anything to judge them. Here each row shows what it is: a way
//! around does harm where anything runs it, a plain read does none.

mod case;
mod fixture;
mod mutate;
mod oracle;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant, SystemTime};

use case::Case;
use mutate::{Mutator, Numbers};
use oracle::{Copy, Ground, Oracle, Ran};
pub(crate) use oracle::{analysed, guarded};
use sinew_tool::{Analysis, CommandLine, FileSettings, Plain, Shell};

use crate::tree::{rounds, skipped};

/// The fewest rows of each class that must be shown to do harm on this machine.
const FEWEST: usize = 10;
/// How many commands run at once.
const N_THREADS: usize = 4;

fn corpus(text: &str) -> Vec<Case> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ways_around_do_harm() {
    let cases = corpus(include_str!("corpora/bypasses.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let harm = |case: &Case| {
        let run = |ground| oracle.harm(ground, &case.text());
        match case.class.as_str() {
            "repository" => run(Ground::Trapped),
            "config" => run(Ground::Quiet).or_else(|| run(Ground::Trapped)),
            _ => run(Ground::Quiet),
        }
    };
    // Most of them wait most of the time.
    let harms: Vec<_> = std::thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(N_THREADS));
        let parts = parts.map(|part| scope.spawn(|| part.iter().map(harm).collect::<Vec<_>>()));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let mut shown = BTreeMap::<&str, [usize; 2]>::new();
    let mut idle = Vec::new();
    for (case, harm) in cases.iter().zip(&harms) {
        let [n_shown, n_rows] = shown.entry(&case.class).or_default();
        *n_rows += 1;
        match harm {
            Some(_) => *n_shown += 1,
            None => idle.push(case.shown()),
        }
    }
    let lacking: Vec<_> = shown.iter().filter(|(_, [n_shown, _])| *n_shown < FEWEST).collect();
    assert!(lacking.is_empty(), "classes with too few rows that do harm: {lacking:?}: {idle:#?}");
    if !idle.is_empty() {
        let (n_idle, n_rows) = (idle.len(), cases.len());
        skipped(&format!("{n_idle} of {n_rows} ways around do no harm on this machine: {idle:#?}"));
    }
}

#[test]
fn plain_reads_do_none() {
    let cases = corpus(include_str!("corpora/plain.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let harms = cases.iter().map(|case| oracle.harm(Ground::Quiet, &case.text()));
    let bad: Vec<_> = cases.iter().zip(harms).filter(|(_, harm)| harm.is_some()).collect();
    assert!(bad.is_empty(), "plain reads that do harm: {bad:#?}");
}

/// Returns the script that runs in the place of a plain command.
fn script(analysis: &Analysis) -> Option<&str> {
    match &analysis.plain {
        Ok(Plain::Script(script)) => Some(script),
        Ok(Plain::Argv(_)) | Err(_) => None,
    }
}

/// An allowed script of the class `repository` runs without the traps of the repository.
#[test]
fn no_way_around_is_plain() {
    let cases = corpus(include_str!("corpora/bypasses.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let mut wrong = Vec::new();
    for case in &cases {
        let text = case.text();
        for ground in [Ground::Quiet, Ground::Trapped] {
            let analysis = oracle.analysed(ground, &text);
            let Some(found) = script(&analysis) else { continue };
            if case.class != "repository" {
                wrong.push((case.shown(), found.to_owned()));
                continue;
            }
            let copy = oracle.copy(ground);
            let again = copy.analysed(&text);
            let harm = copy.run(script(&again).unwrap()).harm;
            if harm.is_some() {
                wrong.push((case.shown(), format!("{harm:?}: {found}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} ways around are plain: {wrong:#?}", wrong.len());
}

#[test]
fn plain_reads_are_plain_and_do_the_same() {
    let cases = corpus(include_str!("corpora/plain.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let mut asked = Vec::new();
    let mut differs = Vec::new();
    for case in &cases {
        let text = case.text();
        let copy = oracle.copy(Ground::Quiet);
        let analysis = copy.analysed(&text);
        let Some(found) = script(&analysis) else {
            asked.push((case.shown(), analysis.plain.clone()));
            continue;
        };
        // A clock may go on in between.
        let difference =
            (0..3).map(|_| difference(&copy, found, &text)).take_while(Option::is_some);
        if let Some(Some(difference)) = difference.collect::<Vec<_>>().get(2) {
            differs.push((case.shown(), found.to_owned(), difference.clone()));
        }
    }
    let (missing, asked): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, found)| {
        found.as_ref().is_err_and(|unclear| unclear.rule == "shell.missing")
    });
    if !missing.is_empty() {
        skipped(&format!("{} plain reads lack their program: {missing:#?}", missing.len()));
    }
    let n_tried = cases.len() - missing.len();
    let n_allowed = n_tried - asked.len();
    assert!(differs.is_empty(), "{} do something else: {differs:#?}", differs.len());
    assert!(n_tried * 95 <= n_allowed * 100, "only {n_allowed} of {n_tried}: {asked:#?}");
}

/// Returns in what a script differs from the text that it is made of, if it does.
fn difference(copy: &Copy, script: &str, text: &str) -> Option<String> {
    let ran = copy.run(script);
    let plainly = copy.run(text);
    // What a program complains of begins with its name as it was called.
    let told = |ran: &Ran| {
        let output = String::from_utf8_lossy(&ran.output);
        output
            .lines()
            .map(|line| line.trim_start_matches("/usr/bin/").to_owned())
            .collect::<Vec<_>>()
    };
    let (mut one, mut other) = (told(&ran), told(&plainly));
    // Other programs fill and free the file system at any moment.
    if text.split_whitespace().any(|word| word == "df") {
        for line in one.iter_mut().chain(&mut other) {
            let words: Vec<&str> = line.split_whitespace().collect();
            *line = format!("{:?} {} {:?}", words.first(), words.len(), words.last());
        }
    }
    // It searches several files at once, and tells of each when it is done.
    if text.split_whitespace().any(|word| word == "rg") {
        one.sort();
        other.sort();
    }
    if ran.harm.is_some() {
        return Some(format!("{:?}", ran.harm));
    }
    let first = one.iter().zip(&other).find(|(one, other)| one != other);
    let is_same = one == other && ran.code == plainly.code;
    (!is_same).then(|| format!("{first:?}, exit codes {:?} and {:?}", ran.code, plainly.code))
}

/// Holes that people found in earlier versions. Each row names the files to lay out first; a script that is plain all
/// the same must do no harm.
#[test]
fn what_was_found_once_is_not_found_again() {
    let cases = corpus(include_str!("corpora/found.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let mut wrong = Vec::new();
    let mut idle = Vec::new();
    for case in &cases {
        let laid_out = || {
            let copy = oracle.copy(Ground::Quiet);
            if !case.setup.is_empty() {
                copy.run(&case.setup);
            }
            copy
        };
        if laid_out().run(&case.text()).harm.is_none() {
            idle.push(case.shown());
        }
        let copy = laid_out();
        let analysis = copy.analysed(&case.text());
        if let Some(script) = script(&analysis)
            && let Some(harm) = copy.run(script).harm
        {
            wrong.push((case.shown(), script.to_owned(), harm));
        }
    }
    assert!(wrong.is_empty(), "{} are back: {wrong:#?}", wrong.len());
    // Some need a shell, a version or a locale that is not there.
    assert!(idle.len() * 3 < cases.len(), "too many rows that do nothing here: {idle:#?}");
}

/// What does no harm that can be seen here: it waits, or shows what it should not on other machines.
#[test]
fn what_is_not_known_to_only_read_asks() {
    let cases = corpus(include_str!("corpora/asks.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let is_plain = |case: &&Case| {
        let copy = oracle.copy(Ground::Quiet);
        if !case.setup.is_empty() {
            copy.run(&case.setup);
        }
        copy.analysed(&case.text()).plain.is_ok()
    };
    let wrong: Vec<_> = cases.iter().filter(is_plain).map(Case::shown).collect();
    assert!(wrong.is_empty(), "{} are plain: {wrong:#?}", wrong.len());
}

/// Git looks at no rule for paths.
#[test]
fn git_asks_where_files_are_denied() {
    let Some(oracle) = Oracle::new() else { return };
    let deny_paths = vec![String::from("**/private/**")];
    let files = FileSettings { deny_paths, ..FileSettings::default() };
    let (guard, root) = oracle::guarded_with(&oracle.place(Ground::Quiet), files);
    let is_plain = |text: &str| {
        let line = CommandLine::Shell(Shell::User, text.to_owned());
        guard.analysed(&line, &root).plain.is_ok()
    };
    let prints = ["show", "log -p", "diff", "grep alpha", "cat-file -p HEAD", "blame notes.txt"];
    for text in prints {
        assert!(!is_plain(&format!("git {text}")), "{text}");
    }
    for text in ["git status", "git branch", "cat notes.txt"] {
        assert!(is_plain(text), "{text}");
    }
}

/// What stands beside a command that asks runs as it is written, where no rule leaves files out.
#[test]
fn names_that_are_handed_on_remain_to_be_asked_about() {
    let Some(oracle) = Oracle::new() else { return };
    for cat in ["cat", "/usr/bin/cat"] {
        let text = format!("find . -name notes.txt -print0 | xargs -0 {cat}; make");
        let rest = oracle.analysed(Ground::Quiet, &text).rest.unwrap_or_default();
        let names: Vec<_> = rest.iter().filter_map(|words| words.first()).collect();
        assert_eq!(names, ["xargs", "make"], "{text}");
    }
}

/// The control: a judge that looks at the first word alone lets ways around pass.
#[test]
fn first_words_let_ways_around_pass() {
    let plain = corpus(include_str!("corpora/plain.jsonl"));
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = plain.iter().map(|case| first(&case.text())).collect();
    let ways = corpus(include_str!("corpora/bypasses.jsonl"));
    let n_passed = ways.iter().filter(|case| known.contains(&first(&case.text()))).count();
    assert!(ways.len() < n_passed * 2, "only {n_passed} of {}", ways.len());
}

/// How long a text may be looked at, also where other tests run beside this one.
const LOOKED_AT: Duration = Duration::from_secs(2);

/// Whatever a text is, it is answered, soon and in bounded memory; no judge understands these.
#[test]
fn hostile_texts_ask_in_bounded_time() {
    let Some(oracle) = Oracle::new() else { return };
    let nested = |inner: &str, n: usize| format!("{}{inner}{}", "$(".repeat(n), ")".repeat(n));
    let hostile = [
        String::from("echo 'unbalanced"),
        String::from("echo \"unbalanced"),
        String::from("ls `"),
        "a;".repeat(100_000),
        "(".repeat(40_000),
        "{ ".repeat(20_000),
        "ls;".repeat(10_000),
        "ls|".repeat(10_000) + "ls",
        nested("id", 5_000),
        nested(&"a".repeat(50_000), 900),
        "eval ".repeat(10_000) + "id",
        format!("{}id{}", "eval '".repeat(2_000), "'".repeat(2_000)),
        String::from("alias ls='touch pwned'; ls"),
        String::from("ls() { touch pwned; }; ls"),
        String::from("function ls { touch pwned; }; ls"),
        String::from("ls\u{200b} -la"),
        String::from("ls \u{202e}dwnwp hcuot"),
        String::from("ls\u{b}; touch pwned"),
        String::from("ls\r; touch pwned"),
        String::from("ls \u{fffd}"),
        "x=".repeat(30_000),
        "<<E ".repeat(5_000),
        "[[ ".repeat(10_000),
        "a".repeat(64 * 1024 + 1),
        "\0".repeat(100),
    ];
    let began = Instant::now();
    for text in &hostile {
        let start: String = text.escape_debug().take(60).collect();
        let since = Instant::now();
        let analysis = oracle.analysed(Ground::Quiet, text);
        assert!(since.elapsed() < LOOKED_AT, "{start}: {:?}", since.elapsed());
        // What holds a character of no meaning for the shell may be plain.
        let is_data = text.contains('\u{fffd}');
        let n_bytes = analysis.segments.iter().map(|part| part.text.len()).sum::<usize>();
        assert!(n_bytes <= 1 << 20, "{start}: {n_bytes} bytes");
        assert!(is_data || analysis.plain.is_err(), "{start} is plain");
    }
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut numbers = Numbers::new(seed);
    let until = began + Duration::from_secs(5) * u32::try_from(rounds(1)).unwrap();
    let mut n_tried = 0;
    while Instant::now() < until {
        let text = mutate::noise(&mut numbers);
        let since = Instant::now();
        let analysis = oracle.analysed(Ground::Quiet, &text);
        assert!(since.elapsed() < LOOKED_AT, "seed {seed}: {:?}: {text:?}", since.elapsed());
        assert!(analysis.segments.len() <= 1_000, "seed {seed}: {text:?}");
        n_tried += 1;
    }
    eprintln!("{n_tried} texts of noise were answered");
}

/// How long new commands are tried in one round where fixtures are in memory; elsewhere it takes twice as long.
const TRIED: Duration = Duration::from_secs(30);
/// The fewest that must be plain in that time: fewer would show nothing.
const FEWEST_PLAIN: usize = 100;

/// New commands do not bring the analyser down, and what it finds plain does no harm.
#[test]
fn nothing_that_is_plain_does_harm() {
    let plain = corpus(include_str!("corpora/plain.jsonl"));
    let ways = corpus(include_str!("corpora/bypasses.jsonl"));
    let texts = |cases: &[Case]| cases.iter().map(Case::text).collect::<Vec<_>>();
    let (plain, ways) = (texts(&plain), texts(&ways));
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let ways: Vec<&str> = ways.iter().map(String::as_str).collect();
    let Some(oracle) = Oracle::new() else { return };
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut mutator = Mutator::new(&plain, &ways, Numbers::new(seed));
    let slower = if oracle.is_in_memory() { 1 } else { 2 };
    let until = Instant::now() + slower * TRIED * u32::try_from(rounds(1)).unwrap();
    let mut seen = HashSet::new();
    let mut n_tried = 0;
    while Instant::now() < until {
        let text = mutator.next();
        n_tried += 1;
        let ground = if n_tried % 2 == 0 { Ground::Quiet } else { Ground::Trapped };
        let analysis = oracle.analysed(ground, &text);
        if script(&analysis).is_none_or(|script| !seen.insert((ground, script.to_owned()))) {
            continue;
        }
        let copy = oracle.copy(ground);
        let again = copy.analysed(&text);
        let harm = script(&again).map(|script| copy.run(script).harm);
        assert_eq!(harm, Some(None), "seed {seed}: {text:?} runs as {:?}", again.plain);
    }
    assert!(FEWEST_PLAIN <= seen.len(), "only {} of {n_tried} were plain", seen.len());
    eprintln!("{n_tried} new commands, {} of them plain, none of which does harm", seen.len());
}
