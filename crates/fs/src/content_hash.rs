//! BLAKE3 hashes of contents.

use sinew_tool::ContentHash;

/// Returns the hash of a content in memory.
pub fn content_hash(content: &[u8]) -> ContentHash {
    ContentHash::from(*blake3::hash(content).as_bytes())
}

/// Returns the hash of all that a hasher has read.
pub fn hash_so_far(hasher: &blake3::Hasher) -> ContentHash {
    ContentHash::from(*hasher.finalize().as_bytes())
}
