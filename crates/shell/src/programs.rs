//! Programs that a plain command may run, with options that only shape what they read.
//!
//! Sources are the manuals of GNU coreutils 9, grep 3, diffutils 3, findutils 4, sed 4, gawk 5, file 5,
//! util-linux 2, ripgrep 15, jq 1, tree 2 and git 2. Options that write, run another program, follow symlinks
//! or take file names from a file are left out on purpose.

use super::options::{Operands, Options};

/// A program and its options.
#[derive(Debug)]
pub(super) struct Program {
    /// Its names.
    pub(super) names: &'static str,
    pub(super) options: Options<'static>,
    pub(super) operands: Operands,
    /// Words inserted after its name.
    pub(super) added: &'static [&'static str],
    pub(super) check: Check,
}

/// Further checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Awk,
    Sed,
    Jq,
    /// It takes only a `+` and a format.
    Date,
    /// Its option values are numbers.
    Count,
    /// It may walk directories.
    Diff,
    Grep,
    Rg,
    /// A word with a leading `@` names a file with more words.
    NoAt,
}

const fn plain(names: &'static str, table: &'static str, operands: Operands) -> Program {
    Program {
        names,
        options: Options { table, is_posix: false },
        operands,
        added: &[],
        check: Check::Nothing,
    }
}

const HASHES: &str = "-bt --binary --text --tag --zero -z !--check !--ignore-missing !--quiet \
                      !--status !--strict !--warn";

const GREP: &str = "-EFGPivwxycLlqsobHhnTZazrU -e= -f@ -m= -A= -B= -C= -d= -9 \
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp= --file@ --ignore-case \
    --no-ignore-case --invert-match --word-regexp --line-regexp --count --color? --colour? \
    --files-without-match --files-with-matches --max-count= --only-matching --quiet --silent \
    --no-messages --byte-offset --with-filename --no-filename --label= --line-number --initial-tab \
    --null --after-context= --before-context= --context= --group-separator= --no-group-separator \
    --text --binary-files= !--devices --directories= --exclude= --exclude-dir= --include= \
    --recursive --line-buffered --binary --null-data !--exclude-from !--dereference-recursive \
    !--unix-byte-offsets";

pub(super) const PROGRAMS: &[Program] = &[
    plain(
        "ls dir vdir",
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxX1Z -I= -w= -T= --all --almost-all --author --escape \
         --block-size= --ignore-backups --color? --directory --dired --full-time --group-directories-first \
         --no-group --human-readable --si --hide= --hyperlink? --indicator-style= --inode --ignore= \
         --kibibytes --numeric-uid-gid --literal --hide-control-chars --show-control-chars --quote-name \
         --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= \
         --context --zero --format= --classify? --file-type !--dereference \
         !--dereference-command-line !--dereference-command-line-symlink-to-dir",
        Operands::Files,
    ),
    plain(
        "cat",
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
         --show-nonprinting",
        Operands::Files,
    ),
    Program {
        check: Check::Count,
        ..plain(
            "head",
            "-qvz -n= -c= -9 --bytes= --lines= --quiet --silent --verbose --zero-terminated",
            Operands::Files,
        )
    },
    Program {
        check: Check::Count,
        ..plain(
            "tail",
            "-qvz -n= -c= -9 --bytes= --lines= --quiet --silent --verbose --zero-terminated \
             !--follow !--retry !--pid !--max-unchanged-stats !--sleep-interval",
            Operands::Files,
        )
    },
    plain(
        "wc",
        "-cmlLw --bytes --chars --lines --max-line-length --words --total= !--files0-from",
        Operands::Files,
    ),
    plain(
        "nl",
        "-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --section-delimiter= \
         --footer-numbering= --header-numbering= --line-increment= --join-blank-lines= \
         --number-format= --no-renumber --number-separator= --starting-line-number= --number-width=",
        Operands::Files,
    ),
    plain("tac", "-br -s= --before --regex --separator=", Operands::Files),
    plain("rev", "", Operands::Files),
    plain(
        "sort",
        "-bdfgiMhnRrVcCmsuz -k= -t= --ignore-leading-blanks --dictionary-order --ignore-case \
         --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort \
         --random-sort --reverse --sort= --version-sort --check? --key= --merge --stable \
         --field-separator= --unique --zero-terminated --debug !--output !--compress-program \
         !--files0-from !--random-source !--temporary-directory !--batch-size !--buffer-size !--parallel",
        Operands::Files,
    ),
    plain(
        "uniq",
        "-cdDiuz -f= -s= -w= --count --repeated --all-repeated? --skip-fields= --group? --ignore-case \
         --skip-chars= --unique --zero-terminated --check-chars=",
        Operands::UpTo(1),
    ),
    plain(
        "cut",
        "-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement \
         --only-delimited --output-delimiter= --zero-terminated",
        Operands::Files,
    ),
    plain("paste", "-sz -d= --delimiters= --serial --zero-terminated", Operands::Files),
    plain("tr", "-cCdst --complement --delete --squeeze-repeats --truncate-set1", Operands::Texts),
    plain(
        "comm",
        "-123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated",
        Operands::Files,
    ),
    plain(
        "join",
        "-iz -a= -e= -j= -o= -t= -v= -1= -2= --ignore-case --check-order --nocheck-order --header \
         --zero-terminated",
        Operands::Files,
    ),
    plain(
        "cmp",
        "-bls -i= -n= --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent",
        Operands::Files,
    ),
    Program {
        check: Check::Diff,
        ..plain(
            "diff",
            "-qscuenyNrTtiZbwBaEdp -C= -U= -W= -I= -x= -F= -S= --normal --brief \
             --report-identical-files --context? --unified? --ed --rcs --side-by-side --width= \
             --left-column --suppress-common-lines --show-c-function --show-function-line= --label= \
             --expand-tabs --initial-tab --tabsize= --suppress-blank-empty --recursive \
             --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case \
             --no-ignore-file-name-case --exclude= --starting-file= --ignore-case \
             --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space \
             --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr --ifdef= \
             --line-format= --minimal --horizon-lines= --speed-large-files --color? --palette= \
             !--paginate !--exclude-from !--from-file !--to-file",
            Operands::Files,
        )
    },
    plain(
        "stat",
        "-ft -c= --file-system --format= --printf= --terse --cached= !--dereference",
        Operands::Files,
    ),
    Program {
        check: Check::NoAt,
        ..plain(
            "strings",
            "-afowd -n= -t= -e= -s= -U= -9 --all --data --print-file-name --bytes= --radix= --encoding= \
             --include-all-whitespace --output-separator= --unicode=",
            Operands::Files,
        )
    },
    plain(
        "file",
        "-bcdhiklnNrv0E -e= -F= -P= --brief --exclude= --separator= --mime --mime-type \
         --mime-encoding --keep-going --list --no-dereference --no-buffer --no-pad \
         --raw --print0 --extension --apple !--dereference !--magic-file !--files-from !--compile \
         !--uncompress !--uncompress-noreport !--special-files !--debug !--no-sandbox",
        Operands::Files,
    ),
    plain(
        "du",
        "-0abchklmsSxP -B= -d= -t= --null --all --apparent-size --block-size= --bytes --total \
         --max-depth= --human-readable --inodes --summarize --si --separate-dirs --threshold= --time? \
         --time-style= --exclude= --one-file-system --no-dereference !--dereference \
         !--dereference-args !--files0-from !--exclude-from !--count-links",
        Operands::Files,
    ),
    plain(
        "df",
        "-ahHiklPTv -B= -t= -x= --all --block-size= --human-readable --si --inodes --local --no-sync \
         --output? --portability --total --type= --print-type --exclude-type= !--sync",
        Operands::Files,
    ),
    plain("basename", "-az -s= --multiple --suffix= --zero", Operands::Texts),
    plain("dirname", "-z --zero", Operands::Texts),
    plain(
        "realpath",
        "-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet \
         --relative-to@ --relative-base@ --strip --no-symlinks --zero",
        Operands::Files,
    ),
    plain(
        "readlink",
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet \
         --silent --verbose --zero",
        Operands::Files,
    ),
    plain("seq", "-w -f= -s= -9 --equal-width --format= --separator=", Operands::Texts),
    plain("sleep", "", Operands::Texts),
    Program {
        check: Check::Date,
        ..plain(
            "date",
            "-Ru -I? -d= -r@ --date= --reference@ --iso-8601? --rfc-3339= --rfc-email --utc --universal \
             --uct --debug --resolution !--set !--file",
            Operands::Texts,
        )
    },
    plain(
        "uname",
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine \
         --processor --hardware-platform --operating-system",
        Operands::None,
    ),
    plain("whoami nproc arch tty", "", Operands::None),
    plain(
        "id groups",
        "-agGnruzZ --context --group --groups --name --real --user --zero",
        Operands::Texts,
    ),
    plain("hostname", "-s --short", Operands::None),
    plain("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum", HASHES, Operands::Files),
    plain("cksum sum", "-rs -a= --sysv", Operands::Files),
    plain(
        "od",
        "-abcdfhilosvxBDFHILOX -A= -j= -N= -S= -t= -w? --address-radix= --skip-bytes= --read-bytes= \
         --strings? --format= --output-duplicates --width? --endian=",
        Operands::Files,
    ),
    plain(
        "hexdump hd",
        "-bcCdovx -e= -n= -s= --canonical --length= --skip= --no-squeezing \
         --one-byte-octal --one-byte-hex --one-byte-char --two-bytes-decimal --two-bytes-octal \
         --two-bytes-hex !--format-file",
        Operands::Files,
    ),
    plain("fold", "-bs -w= --bytes --spaces --width=", Operands::Files),
    plain(
        "fmt",
        "-cstu -p= -w= -g= -9 --crown-margin --prefix= --split-only --tagged-paragraph \
         --uniform-spacing --width= --goal=",
        Operands::Files,
    ),
    plain("expand unexpand", "-ai -t= -9 --initial --all --first-only --tabs=", Operands::Files),
    plain(
        "column",
        "-txe -n= -c= -o= -s= -N= -H= -R= --table --separator= --output-separator= \
         --output-width= --table-columns= --json --table-name=",
        Operands::Files,
    ),
    plain(
        "tree",
        "-adfFgGhDpqQrsStuUvxiNCnAX -L= -P= -I= --noreport --charset= --filelimit= --timefmt= --sort= \
         --dirsfirst --filesfirst --matchdirs --ignore-case --prune --du --si --inodes --device --metafirst \
         !--gitignore !--info !--infofile !--fromfile !--gitfile !--output !--fflinks !--fromtabfile",
        Operands::Files,
    ),
    Program {
        check: Check::Grep,
        ..plain("grep", GREP, Operands::TextThenFiles(&["-e", "-f", "--regexp", "--file"]))
    },
    Program {
        added: &["--no-config", "--no-ignore-messages"],
        check: Check::Rg,
        ..plain(
            "rg ripgrep",
            "-acFhHiIlnNoPpqSsUvVwx0b -A= -B= -C= -e= -E= -f@ -g= -j= -m= -M= -r= -t= -T= -d= \
             --after-context= --before-context= --context= --regexp= --encoding= --file@ --glob= \
             --iglob= --threads= --max-count= --max-columns= --max-columns-preview --replace= --type= \
             --type-not= --type-list --max-depth= --text --count --count-matches --fixed-strings \
             --no-filename --with-filename --ignore-case --files-with-matches --files-without-match \
             --line-number --no-line-number --only-matching --pcre2 --pretty --quiet --smart-case \
             --case-sensitive --multiline --multiline-dotall --invert-match --version \
             --word-regexp --line-regexp --null --null-data --byte-offset --column --no-column --color= \
             --colors= --files --heading --no-heading --no-hidden --json --no-ignore \
             --no-ignore-vcs --no-ignore-parent --no-ignore-dot --no-ignore-global --no-messages \
             --one-file-system --passthru --sort= --sortr= --stats --trim --crlf --engine= --binary \
             !--debug --field-context-separator= --field-match-separator= --context-separator= \
             --max-filesize= --vimgrep --auto-hybrid-regex --mmap --no-mmap --no-config \
             --include-zero --line-buffered --block-buffered --path-separator= --stop-on-nonmatch \
             --glob-case-insensitive --no-unicode --regex-size-limit= --dfa-size-limit= \
             !--hidden !--unrestricted !--pre !--pre-glob !--search-zip !--follow !--hostname-bin !--hyperlink-format \
             !--ignore-file !--type-add !--type-clear !--generate !--trace",
            Operands::TextThenFiles(&[
                "-e",
                "-f",
                "--regexp",
                "--file",
                "--files",
                "--type-list",
                "--version",
                "-V",
            ]),
        )
    },
    Program {
        check: Check::Jq,
        ..plain(
            "jq",
            "-acCejMnrRsSj --compact-output --null-input --raw-input --slurp --raw-output \
             --raw-output0 --join-output --ascii-output --sort-keys --color-output --monochrome-output \
             --tab --indent= --unbuffered --exit-status --stream --seq !--from-file !--slurpfile \
             !--rawfile !--arg !--argjson !--args !--jsonargs !--library-path !--run-tests",
            Operands::TextThenFiles(&[]),
        )
    },
    Program {
        check: Check::Sed,
        ..plain(
            "sed",
            "-nErsuz -e= -l= --quiet --silent --expression= --regexp-extended --separate --unbuffered \
             --null-data --posix --sandbox --debug --line-length= !--in-place !--file \
             !--follow-symlinks",
            Operands::TextThenFiles(&["-e", "--expression"]),
        )
    },
    Program {
        check: Check::Awk,
        options: Options { table: "-F= -v= --field-separator= --assign=", is_posix: true },
        ..plain("awk gawk mawk", "", Operands::TextThenFiles(&[]))
    },
];

/// Programs that may only print their version.
pub(super) const VERSIONS: &[(&str, &[&str])] = &[
    ("python3", &["--version", "-V"]),
    ("python", &["--version", "-V"]),
    ("node", &["--version", "-v"]),
    ("git", &["--version"]),
    ("bash", &["--version"]),
    ("gcc", &["--version"]),
    ("cc", &["--version"]),
    ("clang", &["--version"]),
    ("make", &["--version"]),
    ("ruby", &["--version"]),
    ("perl", &["--version", "-v"]),
];

/// Returns the entry of a program.
pub(super) fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.names.split(' ').any(|known| known == name))
}
