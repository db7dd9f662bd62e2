//! `DeadlineMap::builder`, and how the shards of a map grow and shrink.

use crate::common::{ms, must_end, paused};
use futures::StreamExt;
use hairspring::DeadlineMap;

#[test]
fn a_number_of_shards_out_of_the_range_is_refused_by_name() {
    for shards in [0, 65, usize::MAX] {
        let error = DeadlineMap::<u64, ()>::builder().shards(shards).build().unwrap_err();
        assert_eq!(error.to_string(), format!("shards is {shards}: must be from 1 to 64"));
    }
}

/// Fails if it hangs.
fn in_paused_time(test: impl Future<Output = ()> + Send + 'static) {
    must_end(|| paused().block_on(test));
}

#[test]
fn a_map_of_any_number_of_shards_holds_and_hands_out_all() {
    for shards in [1, 2, 3, 37, 64] {
        in_paused_time(async move {
            let (map, expirations) = DeadlineMap::builder().shards(shards).build().unwrap();
            let count = 10 * shards as u64;
            assert!((0..count).all(|key| map.insert(key, (), ms(1 + key)).is_none()));
            assert!((0..count).all(|key| map.touch(&key, ms(2 + key))));
            assert_eq!((map.len(), map.is_empty()), (10 * shards, false));
            drop(map);
            let keys: Vec<u64> = expirations.map(|(key, ())| key).collect().await;
            assert!(keys.into_iter().eq(0..count), "in order");
        });
    }
}

/// A shard of few entries is searched, and one of many has a wheel. Nothing is lost as it grows and shrinks, and the
/// earliest entry comes first.
#[test]
fn a_shard_whose_entries_become_many_and_few_and_many_again_loses_none() {
    in_paused_time(async {
        let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
        for count in [15, 16, 17, 18, 200, 3, 40] {
            for key in (0..count).rev() {
                map.insert(key, count, ms(10 + key));
                assert_eq!(map.remaining(&key), Some(ms(10 + key)));
            }
            assert!(map.touch(&(count - 1), ms(1)), "brought forward");
            assert!(map.touch(&0, ms(1_000)), "put off");
            assert_eq!(map.remove(&1), Some(count));
            let mut keys = Vec::new();
            for _ in 2..=count {
                keys.push(expirations.recv().await.unwrap().0);
            }
            assert!(keys.into_iter().eq([count - 1].into_iter().chain(2..count - 1).chain([0])), "of {count}");
            assert!(map.is_empty());
            if count == 18 {
                map.clear();
            }
        }
    });
}
