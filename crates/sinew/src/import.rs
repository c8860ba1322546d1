//! Permissions of other programs, in the form of the configuration.
