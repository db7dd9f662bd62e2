//! The nodes of a cluster in one process, each on a clock of its own that runs ahead, behind, or at another rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::{HOUR, both_flavours, ms, must_end, step};
use hairspring::test_util::{ManualClock, settle};
use hairspring::{Duration, Timer};

const LEASE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

struct Node {
    clock: ManualClock,
    /// How fast its clock runs.
    rate: f64,
    timer: Timer,
    leads: Arc<AtomicBool>,
}

impl Node {
    fn new(rate: f64, ahead: Duration) -> Node {
        let clock = ManualClock::new();
        clock.advance(ahead);
        let timer = Timer::builder().clock(&clock).build().unwrap();
        Node { clock, rate, timer, leads: Arc::default() }
    }

    /// Leads, or not, once `after` has passed on its own clock.
    fn leads_after(&self, after: Duration, leads: bool) {
        let (sleep, flag) = (self.timer.sleep(after), self.leads.clone());
        tokio::spawn(async move {
            sleep.await;
            flag.store(leads, SeqCst);
        });
    }
}

/// Real time passes, in so many steps, on the clock of each node.
async fn pass(by: Duration, steps: u32, nodes: &[&Node], mut look: impl FnMut()) {
    for _ in 0..steps {
        for node in nodes {
            node.clock.advance(by.mul_f64(node.rate));
        }
        settle().await;
        step();
        look();
    }
}

/// For how long two nodes lead at a time, if one stops `margin` before the end of its lease, and the other begins then.
async fn overlap(rates: [f64; 2], margin: Duration) -> Duration {
    let (old, new) = (Node::new(rates[0], Duration::ZERO), Node::new(rates[1], HOUR));
    old.leads.store(true, SeqCst);
    old.leads_after(LEASE.checked_sub(margin).unwrap(), false);
    new.leads_after(LEASE, true);
    settle().await;
    let mut both = Duration::ZERO;
    let nodes = [&old, &new];
    pass(9 * LEASE / 10, 1, &nodes, || assert!(old.leads.load(SeqCst) && !new.leads.load(SeqCst))).await;
    pass(STEP, 40, &nodes, || {
        if old.leads.load(SeqCst) && new.leads.load(SeqCst) {
            both += STEP;
        }
    })
    .await;
    assert!(!old.leads.load(SeqCst) && new.leads.load(SeqCst));
    both
}

#[test]
fn a_lease_without_a_margin_fails_as_soon_as_clocks_drift_apart() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                assert_eq!(overlap([1.0, 1.0], Duration::ZERO).await, Duration::ZERO);
                assert_eq!(overlap([1.01, 0.99], Duration::ZERO).await, Duration::ZERO);
                let both = overlap([0.99, 1.01], Duration::ZERO).await;
                assert!(both >= ms(100) && both <= ms(300), "{both:?}");
                assert_eq!(overlap([0.99, 1.01], ms(250)).await, Duration::ZERO);
            });
        });
    }
}

#[test]
fn each_node_sees_only_its_own_time() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let nodes = [Node::new(0.5, HOUR), Node::new(1.0, Duration::ZERO), Node::new(60.0, Duration::ZERO)];
                let starts = nodes.each_ref().map(|node| node.clock.now());
                pass(STEP, 120, &nodes.each_ref(), || ()).await;
                let passed: Vec<_> = (nodes.iter().zip(starts)).map(|(node, start)| node.clock.now() - start).collect();
                assert_eq!(passed, [3, 6, 360].map(Duration::from_secs));
                assert!(nodes[0].timer.now() == nodes[0].clock.now() && nodes[0].clock.now() > nodes[1].clock.now());
            });
        });
    }
}
