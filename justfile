# The few commands of the project; the work is in `xtask`.

# Format, lints and tidy checks, without changing anything.
check:
    cargo xtask check

# Every test of the workspace.
test *args:
    cargo xtask test {{args}}

# The rules of the project that no compiler checks.
tidy:
    cargo xtask tidy

# Files of a crate that import one another.
circles:
    cargo xtask circles

# How often comments and pages name no actor or noun.
words:
    cargo xtask words

# Format every source file.
fmt:
    cargo xtask fmt

# The binary that people get: static, position-independent, of a limited size.
dist:
    cargo xtask dist

# Write the generated pages of docs anew.
docs:
    cargo xtask docs

# Speed, measured beside what people would use instead.
bench *args:
    cargo xtask bench {{args}}

# What takes long, all or some of `tests` (more rounds), `deny` (licences), `bombs` (every case), `bench` (every row); `protected`
# (installs the programs that act on protected names) runs only if it is named.
nightly *parts:
    cargo xtask nightly {{parts}}
