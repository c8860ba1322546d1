//! Converts a model's context window in tokens to the byte limit of one Read, and back.

/// Returns the byte limit of one Read: a fifth of the context at four bytes a token, 50 to 512 KiB.
pub(crate) fn reply_bytes_for_context(tokens: u64) -> usize {
    let bytes = tokens.saturating_mul(4) / 5;
    usize::try_from(bytes).unwrap_or(usize::MAX).clamp(50 * 1024, 512 * 1024)
}

/// Returns the context window in tokens for a Read limit: the inverse, within the bounds.
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
