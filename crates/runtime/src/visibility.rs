//! Whether a tool is listed, and whether it can be called.

sinew_tool::word_enum! {
    /// Whether a tool is listed, and whether it can be called.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Visibility {
        /// Listed and callable.
        Shown = "shown",
        /// Found by a search, and listed from then on in that session; callable at any time.
        Deferred = "deferred",
        /// Unknown to callers.
        Hidden = "hidden",
        /// Not listed; a call is answered by the tool, which says why it does not run.
        Disabled = "disabled",
    }
}
