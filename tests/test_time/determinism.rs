//! Clients with retries, a circuit breaker and deadlines, over hours of virtual time.
//!
//! A server is flaky: now and then it refuses a request, and it has outages of hours, in which it refuses all or hangs.
//! Each client sends a request every few minutes. It gives each attempt a limit, tries again after a pause that doubles
//! and is spread by chance, gives the whole request a deadline, and stops asking for a while when too much has failed in
//! a row.
//!
//! All chance comes from seeds, and no two clients wait for the same instant: tasks that are woken at the same instant
//! run side by side, on several workers, and who comes first is the scheduler's choice.

use std::sync::{Arc, Mutex};

use hairspring::{Duration, Instant, sleep, timeout};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::common::Random;

const CLIENTS: u64 = 4;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// How long a client pauses between requests, at most.
const PAUSE: Duration = Duration::from_secs(20 * 60);
/// How long a request may take, with all its attempts.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The first pause before another attempt, about. Each one after it is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(400);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// So many failures in a row open the breaker.
const BREAKS_AT: u32 = 5;
/// How long it stays open.
const COOL_DOWN: Duration = Duration::from_secs(15 * 60);

/// Runs the clients for some virtual time on a runtime of its own, a current-thread one if it has no workers, and
/// returns what happened.
fn run_once(workers: usize, span: Duration) -> Vec<Event> {
    let runtime = match workers {
        0 => Builder::new_current_thread().enable_all().build(),
        workers => Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
    };
    runtime.expect("a runtime can be built").block_on(async {
        hairspring::pause();
        let trace = Trace { start: Instant::now(), events: Arc::default() };
        let server = start_server(span);
        let mut clients = JoinSet::new();
        for name in 0..CLIENTS {
            let client = Client {
                name,
                server: server.clone(),
                random: Random::new(name),
                breaker: Breaker::default(),
                trace: trace.clone(),
            };
            clients.spawn(client.run(span));
        }
        clients.join_all().await;
        let mut events = trace.events.lock().unwrap();
        std::mem::take(&mut *events)
    })
}

/// Where the traces part.
fn first_difference(first: &[Event], other: &[Event]) -> Option<usize> {
    let longest = first.len().max(other.len());
    (0..longest).find(|&at| first.get(at) != other.get(at))
}

/// What happened, and when, counted from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    at: Duration,
    client: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// An attempt, counted from 1 in each request.
    Attempt(u32),
    Answered,
    Refused,
    TimedOut,
    BreakerOpened,
    /// Given up without an attempt, as the breaker is open.
    HeldBack,
    DeadlineMissed,
}

#[derive(Clone)]
struct Trace {
    start: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Trace {
    fn add(&self, client: u64, what: What) {
        self.events.lock().unwrap().push(Event { at: self.start.elapsed(), client, what });
    }
}

struct Client {
    name: u64,
    server: Server,
    random: Random,
    breaker: Breaker,
    trace: Trace,
}

impl Client {
    async fn run(mut self, span: Duration) {
        let start = Instant::now();
        while start.elapsed() < span {
            sleep(self.random.duration(PAUSE)).await;
            // What is still under way at the deadline is dropped: the attempt, or the pause before the next.
            if timeout(DEADLINE, self.request()).await.is_err() {
                self.trace.add(self.name, What::DeadlineMissed);
            }
        }
    }

    /// Tries until there is an answer, or the breaker opens.
    async fn request(&mut self) {
        let mut backoff = FIRST_BACKOFF;
        for attempt in 1.. {
            if self.breaker.is_open() {
                return self.trace.add(self.name, What::HeldBack);
            }
            self.trace.add(self.name, What::Attempt(attempt));
            let outcome = match timeout(ATTEMPT, ask(&self.server)).await {
                Ok(Some(Answer)) => What::Answered,
                Ok(None) => What::Refused,
                Err(_) => What::TimedOut,
            };
            self.trace.add(self.name, outcome);
            if outcome == What::Answered {
                return self.breaker.answered();
            }
            if self.breaker.failed() {
                self.trace.add(self.name, What::BreakerOpened);
            }
            // From a half of it to one and a half, so that clients that failed together do not come back together.
            sleep(backoff / 2 + self.random.duration(backoff)).await;
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }
}

/// Opens if too much has failed in a row, so that a server in trouble is left alone for a while.
#[derive(Default)]
struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    fn is_open(&self) -> bool {
        self.open_until.is_some_and(|until| Instant::now() < until)
    }

    fn answered(&mut self) {
        *self = Breaker::default();
    }

    /// Whether this opened it. When it was open once, one failure opens it again.
    fn failed(&mut self) -> bool {
        self.failures += 1;
        let opens = self.failures >= BREAKS_AT;
        if opens {
            self.open_until = Some(Instant::now() + COOL_DOWN);
        }
        opens
    }
}

struct Answer;

/// Requests to the server. Each is the sender of its answer, dropped if the server refuses.
type Server = mpsc::Sender<oneshot::Sender<Answer>>;

/// `None` if the server refuses.
async fn ask(server: &Server) -> Option<Answer> {
    let (sender, answer) = oneshot::channel();
    server.send(sender).await.ok()?;
    answer.await.ok()
}

/// A server that takes a while for each answer, refuses one request in twenty, and has an outage about twice a day.
fn start_server(span: Duration) -> Server {
    let (server, mut requests) = mpsc::channel::<oneshot::Sender<Answer>>(16);
    // One generator for all clients: they get the same answers in each run only if they ask in the same order.
    let mut random = Random::new(1_000);
    let outages = plan_outages(Instant::now(), span, &mut random);
    tokio::spawn(async move {
        while let Some(mut sender) = requests.recv().await {
            let works_for = 5 * Duration::from_millis(1) + random.duration(Duration::from_millis(300));
            let refuses = random.next() % 20 == 0;
            let now = Instant::now();
            let outage = outages.iter().find(|outage| (outage.begins..outage.ends).contains(&now)).copied();
            tokio::spawn(async move {
                sleep(works_for).await;
                match outage {
                    // Until the client gives up.
                    Some(Outage { hangs: true, .. }) => sender.closed().await,
                    None if !refuses => drop(sender.send(Answer)),
                    _ => drop(sender),
                }
            });
        }
    });
    server
}

#[derive(Clone, Copy)]
struct Outage {
    begins: Instant,
    ends: Instant,
    /// Or refuses.
    hangs: bool,
}

fn plan_outages(start: Instant, span: Duration, random: &mut Random) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    let mut begins = start + random.duration(12 * HOUR);
    while begins < start + span {
        let ends = begins + 10 * MINUTE + random.duration(6 * HOUR);
        outages.push(Outage { begins, ends, hangs: outages.len() % 2 == 1 });
        begins = ends + random.duration(12 * HOUR);
    }
    outages
}

const SPAN: Duration = Duration::from_secs(6 * 3_600);

fn all_runs_are_alike(kinds: &[usize], runs: usize) {
    let first = run_once(kinds[0], SPAN);
    assert!(first.len() > 200, "{} events", first.len());
    for (run, workers) in (1..runs).zip(kinds.iter().cycle()) {
        let trace = run_once(*workers, SPAN);
        let differs = first_difference(&first, &trace).map(|at| (at, first.get(at), trace.get(at)));
        assert!(differs.is_none(), "run {run}, on {workers} workers: {differs:?}");
    }
}

#[test]
fn a_hundred_runs_on_1_2_and_4_workers_and_on_none_leave_one_trace() {
    let rounds = std::env::var("HAIRSPRING_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    all_runs_are_alike(&[1, 2, 4, 0], rounds);
}
