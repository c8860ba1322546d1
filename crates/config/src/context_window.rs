//! How large one Read may be for a context window, and the other way round.

/// Returns the most bytes of one Read for a model's context: a fifth of it at four bytes a token,
/// at least 50 KiB and at most 512 KiB.
pub(crate) fn reply_bytes_for_context(tokens: u64) -> usize {
    let bytes = tokens.saturating_mul(4) / 5;
    usize::try_from(bytes).unwrap_or(usize::MAX).clamp(50 * 1024, 512 * 1024)
}

/// Returns the context for which one Read is this large: the other way round, between the bounds.
pub(crate) fn tokens_for_reply(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(5) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_size_follows_the_context() {
        for (tokens, bytes) in
            [(0, 51_200), (100_000, 80_000), (200_000, 160_000), (10_000_000, 524_288)]
        {
            assert_eq!(reply_bytes_for_context(tokens), bytes, "{tokens}");
        }
    }
}
