//! Reading an entry by key among a million, in no order, each of which lives for an hour: `DeadlineMap::get_with`, a
//! mutex around a `HashMap` that knows no time, and moka's cache with `time_to_idle`, in which reading also keeps
//! alive. `touch_with` does that here.
//!
//! `cargo bench --bench read` in `benches`. With `-- --test` each runs once, among few.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hairspring::DeadlineMap;
use micro::{compare, criterion, is_test, print};
use moka::sync::Cache;

const HOUR: Duration = Duration::from_hours(1);

fn main() {
    let keys: u64 = if is_test() { 1_000 } else { 1_000_000 };
    let (map, _expirations) = DeadlineMap::new();
    let locked = Mutex::new(HashMap::new());
    let cache = Cache::builder().time_to_idle(HOUR).build();
    for key in 0..keys {
        map.insert(key, key, HOUR);
        locked.lock().unwrap().insert(key, key);
        cache.insert(key, key);
    }
    // Spread over all keys.
    let read = |times: u64, get: &dyn Fn(&u64) -> Option<u64>| {
        let start = Instant::now();
        for i in 0..times {
            let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
            assert_eq!(black_box(get(&key)), Some(key));
        }
        start.elapsed()
    };
    let mut criterion = criterion(30);
    compare(
        &mut criterion,
        "read",
        &mut [
            ("get_with", &mut |times| read(times, &|key| map.get_with(key, |value| *value))),
            ("touch_with", &mut |times| read(times, &|key| map.touch_with(key, HOUR, |value| *value))),
            ("Mutex<HashMap>", &mut |times| read(times, &|key| locked.lock().unwrap().get(key).copied())),
            ("moka", &mut |times| read(times, &|key| cache.get(key))),
        ],
    );
    criterion.final_summary();
    print("moka");
}
