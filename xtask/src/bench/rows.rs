//! The table of the rows. What each does is in the modules below, by what it measures.
//!
//! A gate is a promise to those who choose sinew for its speed; it is loosened only with a reason
//! that a user would accept, and never to make a run pass. Ratios are of medians within one row;
//! the few absolute limits mean a quiet machine.

mod answer;
mod command;
mod file;
mod folder;
mod judge;
mod search;
mod server;

use super::report::{Bar, Row, Suite};

const X_RUST_FS: &str = "x rust-fs";
const X_NODE_FS: &str = "x node-fs";
const X_RG: &str = "x rg";
const X_RG_SORTED: &str = "x rg sorted by time";
const X_LS: &str = "x ls -a";
const X_SED: &str = "x sed -i";
const X_LOOP: &str = "x temp, fdatasync, rename";
const X_PATCH: &str = "x patch";
const X_CODEX: &str = "x codex apply_patch";
const X_TAIL: &str = "x tail | head";
const X_NO_SERVERS: &str = "x none of them";
const X_ONE_SERVER: &str = "x list of one server";
const X_SMALL: &str = "x small file";
const X_100K: &str = "x a tree of 100k";
const OVER_NULL_US: &str = "us over null";
const RESIDENT_MB: &str = "MB resident";
const OVER_FILE_MB: &str = "MB resident over file";
const TOKENS: &str = "tokens a tool";
const TOKENS_OF_SIX: &str = "tokens of six tools";
const SECOND_MS: &str = "ms second read";
const OF_ALLOWANCE: &str = "x max(15 us, 5 %)";
const FAILED: &str = "operations failed";
const JUDGED_US: &str = "us a command";
const X_SH: &str = "x sh -c true";
const X_NONE: &str = "x without sandbox";
const OVER_NONE_MS: &str = "ms over no sandbox";
const LEAST_MS: &str = "ms at least";
const X_PIPE: &str = "x pipe to file";
const GROWTH_MB: &str = "MB grown";

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "start",
        about: "start to initialize, null server taken off",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.8, 0.5)],
        run: server::start,
    },
    Row {
        name: "start-servers",
        about: "start to initialize with 20 MCP servers of others",
        run_in: Suite::Every,
        bars: &[Bar::limit(X_NO_SERVERS, 1.1), Bar::limit(X_ONE_SERVER, 4.0)],
        run: server::start_servers,
    },
    Row {
        name: "tools-list",
        about: "tools/list again",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.15, 0.05)],
        run: server::tools_list,
    },
    Row {
        name: "catalog",
        about: "tokens of the catalog: bytes of compact JSON / 4.0",
        run_in: Suite::Every,
        bars: &[Bar::at_most(TOKENS, 120.0, 90.0)],
        run: server::catalog,
    },
    Row {
        name: "catalog-six",
        about: "tokens of the six file tools of the moltis dialect",
        run_in: Suite::Information,
        bars: &[Bar::limit(TOKENS_OF_SIX, 1_200.0)],
        run: server::catalog_six,
    },
    Row {
        name: "idle-memory",
        about: "resident after tools/list and one read",
        run_in: Suite::Every,
        bars: &[Bar::at_most(RESIDENT_MB, 10.0, 6.0)],
        run: server::idle_memory,
    },
    Row {
        name: "call-pipes",
        about: "cheapest call over pipes",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.35, 0.2), Bar::limit(OVER_NULL_US, 25.0)],
        run: server::call_pipes,
    },
    Row {
        name: "call-sockets",
        about: "cheapest call over socket pairs",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.35, 0.2), Bar::limit(OVER_NULL_US, 25.0)],
        run: server::call_sockets,
    },
    Row {
        name: "call-cpu",
        about: "processor time of the cheapest call",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.25, 0.1)],
        run: server::call_cpu,
    },
    Row {
        name: "rate-pipes",
        about: "calls a second, 64 in flight, over pipes",
        run_in: Suite::Every,
        bars: &[Bar::at_least(X_RUST_FS, 6.0, 15.0), Bar::at_least(X_NODE_FS, 1.5, 3.0)],
        run: server::rate_pipes,
    },
    Row {
        name: "rate-sockets",
        about: "calls a second, 64 in flight, over socket pairs",
        run_in: Suite::Every,
        bars: &[Bar::at_least(X_RUST_FS, 6.0, 15.0), Bar::at_least(X_NODE_FS, 1.5, 3.0)],
        run: server::rate_sockets,
    },
    Row {
        name: "governed",
        about: "cheapest call with rules, hooks and the ledger, compared with none, on one processor",
        run_in: Suite::Every,
        bars: &[Bar::limit(OF_ALLOWANCE, 1.0)],
        run: server::governed_call,
    },
    Row {
        name: "read-1k",
        about: "read of 1 KB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.6, 0.4)],
        run: file::read_1k,
    },
    Row {
        name: "read-lines-1m",
        about: "first 2,000 lines of 1 MB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.6, 0.4)],
        run: file::read_lines_1m,
    },
    Row {
        name: "read-lines-200m",
        about: "first 2,000 lines of 200 MB",
        run_in: Suite::Nightly,
        bars: &[Bar::at_most(X_RUST_FS, 0.6, 0.4), Bar::limit(X_SMALL, 1.3)],
        run: file::read_lines_200m,
    },
    Row {
        name: "read-middle-1g",
        about: "2,000 lines in the middle of 1 GiB",
        run_in: Suite::Nightly,
        bars: &[
            Bar::at_most(X_TAIL, 0.9, 0.6),
            Bar::limit(X_RUST_FS, 0.02),
            Bar::limit(SECOND_MS, 5.0),
        ],
        run: file::read_middle_1g,
    },
    Row {
        name: "write-1k",
        about: "write of 1 KB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 1.2, 0.8)],
        run: file::write_1k,
    },
    Row {
        name: "write-1m",
        about: "write of 1 MB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.5, 0.3)],
        run: file::write_1m,
    },
    Row {
        name: "write-durable",
        about: "write of 1 KB that is on the disk",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_LOOP, 1.3, 1.1)],
        run: file::write_durable,
    },
    Row {
        name: "edit-1m",
        about: "one edit in 1 MB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.35, 0.2)],
        run: file::edit_1m,
    },
    Row {
        name: "edits-100",
        about: "100 edits in 1 MB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RUST_FS, 0.15, 0.08), Bar::limit(X_SED, 1.2)],
        run: file::edits_100,
    },
    Row {
        name: "edit-50m",
        about: "one edit in 50 MB",
        run_in: Suite::Nightly,
        bars: &[
            Bar::limit(X_RUST_FS, 0.2),
            Bar::at_most(X_SED, 0.8, 0.5),
            Bar::limit(OVER_FILE_MB, 24.0),
        ],
        run: file::edit_50m,
    },
    Row {
        name: "patch-10k",
        about: "patch of 10,000 lines in 1.5 MB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_PATCH, 0.5, 0.25), Bar::limit(X_CODEX, 0.2)],
        run: file::patch_10k,
    },
    Row {
        name: "glob-newest",
        about: "newest 100 of **/*.rs in the tree",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG_SORTED, 0.65, 0.5), Bar::limit(X_RG, 1.05)],
        run: search::glob_newest,
    },
    Row {
        name: "grep-files",
        about: "files with a common literal, newest first",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 1.05, 0.9), Bar::limit(X_RG_SORTED, 0.65)],
        run: search::grep_files,
    },
    Row {
        name: "grep-files-default",
        about: "newest 250 files with a common literal",
        run_in: Suite::Information,
        bars: &[Bar::at_most(X_RG, 1.05, 0.9), Bar::limit(X_RG_SORTED, 0.65)],
        run: search::grep_files_default,
    },
    Row {
        name: "grep-rare",
        about: "files with a rare literal",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 1.0, 0.9)],
        run: search::grep_rare,
    },
    Row {
        name: "grep-regex",
        about: "lines with [A-Z]+_OVERFLOW",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 1.0, 0.9)],
        run: search::grep_regex,
    },
    Row {
        name: "grep-icase",
        about: "files with a literal in any case",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 1.0, 0.9)],
        run: search::grep_icase,
    },
    Row {
        name: "grep-count",
        about: "matches counted by file",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 1.0, 0.9)],
        run: search::grep_count,
    },
    Row {
        name: "grep-multiline",
        about: "files with a match over two lines",
        run_in: Suite::Every,
        bars: &[Bar::limit(X_RG, 1.0), Bar::limit(RESIDENT_MB, 64.0)],
        run: search::grep_multiline,
    },
    Row {
        name: "grep-first",
        about: "first 250 lines with a common literal",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_RG, 0.6, 0.35)],
        run: search::grep_first,
    },
    Row {
        name: "grep-long-line",
        about: "an absent regex in one line of 50 MB",
        run_in: Suite::Nightly,
        bars: &[Bar::at_most(X_RG, 1.3, 1.0), Bar::limit(RESIDENT_MB, 80.0)],
        run: search::grep_long_line,
    },
    Row {
        name: "grep-1g",
        about: "a needle in a file of 1 GiB",
        run_in: Suite::Nightly,
        bars: &[Bar::at_most(X_RG, 1.0, 0.65), Bar::limit(RESIDENT_MB, 40.0)],
        run: search::grep_1g,
    },
    Row {
        name: "glob-1m-files",
        about: "newest 100 of **/*.rs among a million files",
        run_in: Suite::Nightly,
        bars: &[
            Bar::at_most(X_RG_SORTED, 0.5, 0.35),
            Bar::limit(X_100K, 11.0),
            Bar::limit(RESIDENT_MB, 60.0),
        ],
        run: search::glob_1m_files,
    },
    Row {
        name: "grep-1m-files",
        about: "files with a literal among a million, newest first",
        run_in: Suite::Nightly,
        bars: &[
            Bar::at_most(X_RG, 1.0, 0.7),
            Bar::limit(X_RG_SORTED, 0.4),
            Bar::limit(RESIDENT_MB, 40.0),
        ],
        run: search::grep_1m_files,
    },
    Row {
        name: "list-10k",
        about: "list of a folder of 10,000",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_LS, 0.5, 0.35)],
        run: folder::list_10k,
    },
    Row {
        name: "list-100k",
        about: "list of a folder of 100,000",
        run_in: Suite::Nightly,
        bars: &[Bar::at_most(X_LS, 0.5, 0.35)],
        run: folder::list_100k,
    },
    Row {
        name: "descriptors",
        about: "every operation on the tree under `ulimit -n 256`",
        run_in: Suite::Every,
        bars: &[Bar::limit(FAILED, 0.0)],
        run: folder::descriptors,
    },
    Row {
        name: "judge",
        about: "what becomes of a typical command, before it runs",
        run_in: Suite::Every,
        bars: &[Bar::limit(JUDGED_US, 100.0)],
        run: judge::commands,
    },
    Row {
        name: "shell-true",
        about: "the command `true` without a sandbox",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_SH, 1.25, 1.1), Bar::limit(LEAST_MS, 1.6)],
        run: command::plain,
    },
    Row {
        name: "shell-landlock",
        about: "the same on the sandbox level landlock",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_NONE, 1.35, 1.1)],
        run: command::landlock,
    },
    Row {
        name: "shell-landlock-512m",
        about: "the same from a process that holds 512 MiB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_NONE, 1.35, 1.1)],
        run: command::landlock_512m,
    },
    Row {
        name: "shell-namespaces",
        about: "the command `true` on the sandbox level namespaces",
        run_in: Suite::Every,
        bars: &[Bar::at_most(OVER_NONE_MS, 4.0, 1.0)],
        run: command::namespaces,
    },
    Row {
        name: "shell-namespaces-512m",
        about: "the same from a process that holds 512 MiB",
        run_in: Suite::Every,
        bars: &[Bar::at_most(OVER_NONE_MS, 4.0, 1.0)],
        run: command::namespaces_512m,
    },
    Row {
        name: "shell-100m",
        about: "100 MB of output, stored whole and previewed",
        run_in: Suite::Every,
        bars: &[Bar::at_most(X_PIPE, 1.35, 1.1), Bar::limit(GROWTH_MB, 16.0)],
        run: command::output_100m,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
