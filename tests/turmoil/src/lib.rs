//! Five nodes in a network that turmoil simulates: the same happens at the same times with tokio's timers and with
//! hairspring's.
#![cfg(test)]

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use turmoil::{Builder, Sim};

mod with_tokio {
    use tokio::time;

    include!("node.rs");
}

mod with_hairspring {
    use hairspring as time;

    include!("node.rs");
}

const NODES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// This node has sent nothing for too long.
    Silent(usize),
    Back(usize),
    Answered(u8),
    TimedOut(u8),
    Failed(ErrorKind),
}

/// When in the simulation something happens, to which node, and what.
#[derive(Debug, Clone, Default)]
struct Trace(Rc<RefCell<Vec<(Duration, usize, What)>>>);

impl Trace {
    fn add(&self, node: usize, what: What) {
        self.0.borrow_mut().push((turmoil::sim_elapsed().unwrap(), node, what));
    }
}

fn name(node: usize) -> String {
    format!("node-{node}")
}

fn node_at(address: IpAddr) -> usize {
    (0..NODES).find(|&node| turmoil::lookup(name(node)) == address).unwrap()
}

/// Twenty seconds in which two nodes cannot reach each other, one crashes and restarts, and messages are lost.
fn simulate(seed: u64, add_node: impl Fn(&mut Sim, usize, Trace)) -> Vec<(Duration, usize, What)> {
    let mut network = Builder::new();
    network.rng_seed(seed).simulation_duration(Duration::from_secs(60)).fail_rate(0.01).repair_rate(0.3);
    network.min_message_latency(Duration::from_millis(1)).max_message_latency(Duration::from_millis(60));
    let (mut sim, trace) = (network.build(), Trace::default());
    (0..NODES).for_each(|node| add_node(&mut sim, node, trace.clone()));
    let mut until = |seconds, then: &dyn Fn(&mut Sim)| {
        while sim.elapsed() < Duration::from_secs(seconds) {
            sim.step().unwrap();
        }
        then(&mut sim);
    };
    until(2, &|sim| sim.partition(name(0), name(1)));
    until(5, &|sim| sim.repair(name(0), name(1)));
    until(7, &|sim| sim.crash(name(3)));
    until(11, &|sim| sim.bounce(name(3)));
    until(14, &|sim| sim.hold(name(2), name(4)));
    until(16, &|sim| sim.release(name(2), name(4)));
    until(20, &|_| ());
    drop(sim);
    trace.0.take()
}

#[test]
fn a_network_behaves_as_with_tokios_timers() {
    for seed in 0..3 {
        let tokio =
            simulate(seed, |sim, node, trace| sim.host(name(node), move || with_tokio::run(node, trace.clone())));
        let ours =
            simulate(seed, |sim, node, trace| sim.host(name(node), move || with_hairspring::run(node, trace.clone())));
        let differs = (0..tokio.len().max(ours.len())).find(|&at| tokio.get(at) != ours.get(at));
        let differs = differs.map(|at| (at, tokio.get(at), ours.get(at)));
        assert!(differs.is_none(), "seed {seed}: tokio's, and ours: {differs:?}");
        let count = |is: fn(&What) -> bool| ours.iter().filter(|(_, _, what)| is(what)).count();
        assert!(count(|what| matches!(what, What::Silent(3))) >= 4 && count(|what| matches!(what, What::Back(3))) >= 4);
        assert!(count(|what| matches!(what, What::Answered(_))) > 50);
        assert!(count(|what| matches!(what, What::TimedOut(_))) > 20);
    }
}
