//! Many tasks on a paused multi-thread runtime, over virtual days.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Random, multi_thread, must_end, step};
use hairspring::{Instant, pause, sleep};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

const TASKS: usize = 1_000;
const ROUNDS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);

/// Which task's sleep ended, and when, counted from the start.
type Fired = (usize, Duration);

#[test]
fn a_thousand_tasks_that_sleep_and_pass_messages_for_days_fire_in_the_same_order_each_time() {
    let first = run();
    assert_eq!(first.len(), TASKS * ROUNDS);
    assert!(first.is_sorted_by(|before, after| before.1 < after.1), "each has an instant of its own");
    assert!(first.last().unwrap().1 > 2 * DAY);
    for again in 1..3 {
        let fired = run();
        let differs = (0..first.len()).find(|&at| fired.get(at) != first.get(at));
        assert!(fired.len() == first.len() && differs.is_none(), "run {again} differs in {differs:?}");
    }
}

/// Tasks in a ring. Each sleeps, sends to the next task, and waits for a message from the one before.
fn run() -> Vec<Fired> {
    // A task, as not every system shows what the future of `block_on` does.
    must_end(|| multi_thread(4).block_on(async { tokio::spawn(pass_round()).await.unwrap() }))
}

async fn pass_round() -> Vec<Fired> {
    pause();
    let fired = Arc::default();
    let start = Instant::now();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..TASKS).map(|_| channel(ROUNDS)).unzip();
    let mut tasks = JoinSet::new();
    for (number, receiver) in receivers.into_iter().enumerate() {
        let sender = senders[(number + 1) % TASKS].clone();
        tasks.spawn(sleep_and_pass_on(number, start, Arc::clone(&fired), sender, receiver));
    }
    tasks.join_all().await;
    std::mem::take(&mut *fired.lock().unwrap())
}

async fn sleep_and_pass_on(
    number: usize,
    start: Instant,
    fired: Arc<Mutex<Vec<Fired>>>,
    sender: Sender<Instant>,
    mut receiver: Receiver<Instant>,
) {
    let mut random = Random::new(number as u64);
    for _ in 0..ROUNDS {
        let (from, asked) = (Instant::now(), random.duration(DAY));
        sleep(asked).await;
        let now = Instant::now();
        assert_eq!(now - from, asked, "exact to the nanosecond");
        fired.lock().unwrap().push((number, now - start));
        step();
        sender.send(now).await.unwrap();
        let sent = receiver.recv().await.unwrap();
        assert_eq!(Instant::now(), sent.max(now), "no time passes while a message is on its way");
    }
}
