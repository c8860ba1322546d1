//! Pages that were fetched or converted a moment ago, bounded in bytes and in time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;

/// How much is kept in all, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Values by their keys, the oldest first.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    kept: Mutex<VecDeque<Kept<K, V>>>,
    max_age: Duration,
}

#[derive(Debug)]
struct Kept<K, V> {
    key: K,
    value: V,
    n_bytes: usize,
    since: Instant,
}

impl<K: PartialEq, V: Clone> Cache<K, V> {
    pub(crate) fn new(max_age: Duration) -> Self {
        Self { kept: Mutex::default(), max_age }
    }

    /// Returns the value of a key that is young enough, and its age.
    pub(crate) fn get(&self, is_meant: impl Fn(&K) -> bool) -> Option<(V, Duration)> {
        let mut kept = lock(&self.kept);
        kept.retain(|one| one.since.elapsed() < self.max_age);
        let found = kept.iter().find(|one| is_meant(&one.key))?;
        Some((found.value.clone(), found.since.elapsed()))
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        lock(&self.kept).clear();
    }

    /// Keeps a value of so many bytes; older ones make room.
    pub(crate) fn put(&self, key: K, value: V, n_bytes: usize) {
        if self.max_age.is_zero() || MAX_BYTES < n_bytes {
            return;
        }
        let mut kept = lock(&self.kept);
        kept.retain(|one| one.key != key && one.since.elapsed() < self.max_age);
        let mut sum = kept.iter().map(|one| one.n_bytes).sum::<usize>() + n_bytes;
        while MAX_BYTES < sum {
            let Some(oldest) = kept.pop_front() else { break };
            sum -= oldest.n_bytes;
        }
        kept.push_back(Kept { key, value, n_bytes, since: Instant::now() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(cache: &Cache<u8, &'static str>, key: u8) -> Option<&'static str> {
        cache.get(|known| *known == key).map(|(value, _)| value)
    }

    #[test]
    fn the_oldest_makes_room() {
        let cache = Cache::new(Duration::from_secs(60));
        let half = MAX_BYTES / 2;
        cache.put(1, "one", half);
        cache.put(2, "two", half);
        assert_eq!((get(&cache, 1), get(&cache, 2)), (Some("one"), Some("two")));
        cache.put(1, "again", half);
        assert_eq!((get(&cache, 1), get(&cache, 2)), (Some("again"), Some("two")));
        cache.put(3, "three", 1);
        assert_eq!((get(&cache, 1), get(&cache, 2)), (Some("again"), None));
        cache.put(4, "too large", MAX_BYTES + 1);
        assert_eq!((get(&cache, 3), get(&cache, 4)), (Some("three"), None));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let cache = Cache::new(Duration::from_millis(20));
        cache.put(1, "one", 1);
        assert_eq!(get(&cache, 1), Some("one"));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(get(&cache, 1), None);
        let off = Cache::new(Duration::ZERO);
        off.put(1, "one", 1);
        assert_eq!(get(&off, 1), None);
    }
}
