//! Workers on a real Redis server. Dropping a worker kills it: Redis hears no more of it, as with a killed process.

mod server;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hairspring::sleep;
use server::Server;
use shared_deadlines::{Job, Queue, Worker};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// So long that no lease ends, and no worker claims a second time unless the bell rings.
const FOREVER: Duration = Duration::from_secs(3_600);
/// So short that another worker soon claims the jobs of a killed one.
const LEASE: Duration = ms(1_000);
/// How long a test waits for something to happen before it fails.
const HUNG: Duration = Duration::from_secs(120);
const JOBS: u64 = 300;

/// The runs of jobs, each with the time at which it started, in microseconds since 1970.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(Job, u64)>>>);

impl Runs {
    fn add(&self, job: Job) {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        self.0.lock().unwrap().push((job, start.try_into().unwrap()));
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Checks that all jobs were handled, none early, and each time with a greater token. Returns how often one was, at
    /// most.
    fn check(&self, jobs: u64) -> usize {
        let mut tokens: HashMap<String, Vec<u64>> = HashMap::new();
        for (job, start) in &*self.0.lock().unwrap() {
            assert!(*start >= job.deadline, "{job:?} started at {start}");
            let tokens = tokens.entry(job.name.clone()).or_default();
            assert!(tokens.last().is_none_or(|last| *last < job.token), "{job:?} after {tokens:?}");
            tokens.push(job.token);
        }
        assert_eq!(tokens.len() as u64, jobs);
        tokens.values().map(Vec::len).max().unwrap()
    }
}

/// Starts a worker. It ends when `stop` is notified.
fn start(queue: Queue, work: Duration, runs: &Runs, stop: &Arc<Notify>) -> JoinHandle<()> {
    let (runs, stop) = (runs.clone(), Arc::clone(stop));
    let handle = move |job| {
        runs.add(job);
        sleep(work)
    };
    let worker = Worker { queue, window: Duration::from_secs(60), batch: 10, held: 1_000 };
    tokio::spawn(async move { worker.run(handle, stop.notified()).await })
}

/// Adds jobs with these delays, one every `pause`. Repeats each call until the server answers.
async fn schedule(queue: Queue, delays: impl IntoIterator<Item = u64>, pause: Duration) {
    for (job, delay) in delays.into_iter().enumerate() {
        while queue.schedule(&format!("job-{job}"), "payload", ms(delay)).await.is_err() {}
        sleep(pause).await;
    }
}

async fn wait(mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < HUNG, "nothing more happens");
        sleep(ms(10)).await;
    }
}

async fn all_acknowledged(queue: &Queue) {
    wait(async || queue.unacknowledged().await == Ok(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_is_handled_once_and_none_early_although_a_worker_leaves() {
    let server = Server::start();
    let (queue, runs) = (server.queue(FOREVER), Runs::default());
    let stop = [(); 3].map(|()| Arc::default());
    let [leaves, ..] = stop.each_ref().map(|stop| start(server.queue(FOREVER), ms(300), &runs, stop));
    schedule(queue.clone(), (0..JOBS).map(|job| 1_000 + job * 7 % 2_000), Duration::ZERO).await;
    wait(async || runs.count() > 0).await;
    stop[0].notify_one();
    leaves.await.unwrap();
    all_acknowledged(&queue).await;
    assert_eq!(queue.schedule("job-0", "payload", Duration::ZERO).await, Ok(false), "it was acknowledged lately");
    assert_eq!(runs.check(JOBS), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_no_job_and_repeats_none_while_the_workers_live() {
    let mut server = Server::start();
    let (queue, runs) = (server.queue(FOREVER), Runs::default());
    let _workers = [(); 2].map(|()| start(server.queue(FOREVER), ms(5), &runs, &Arc::default()));
    let producer = tokio::spawn(schedule(queue.clone(), (0..JOBS).map(|_| 500), ms(10)));
    for count in [30, 100, 200] {
        wait(async || runs.count() > count).await;
        server.crash().await;
    }
    producer.await.unwrap();
    all_acknowledged(&queue).await;
    assert_eq!(runs.check(JOBS), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_and_a_killed_server_lose_no_job() {
    let mut server = Server::start();
    let (queue, runs) = (server.queue(LEASE), Runs::default());
    let mut workers: Vec<_> = (0..4).map(|_| start(server.queue(LEASE), ms(20), &runs, &Arc::default())).collect();
    let producer = tokio::spawn(schedule(queue.clone(), (0..JOBS).map(|job| job * 11 % 1_500), ms(10)));
    for killed in 1.. {
        let before = runs.count();
        wait(async || runs.count() > before || producer.is_finished()).await;
        if producer.is_finished() {
            break;
        }
        workers.remove(0).abort();
        workers.push(start(server.queue(LEASE), ms(20), &runs, &Arc::default()));
        if killed % 3 == 0 {
            server.crash().await;
        }
        sleep(ms(400)).await;
    }
    all_acknowledged(&queue).await;
    runs.check(JOBS);
}

/// A worker whose thread is blocked cannot notice the end of its lease until it continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_blocked_beyond_its_lease_starts_nothing_that_another_has_done() {
    let server = Server::start();
    let (queue, runs) = (server.queue(LEASE), Runs::default());
    let (blocks, first, done) = (server.queue(LEASE), runs.clone(), Arc::new(Notify::new()));
    let stop = Arc::clone(&done);
    let blocked = thread::spawn(move || {
        let worker = Worker { queue: blocks, window: FOREVER, batch: 100, held: 100 };
        let handle = |job: Job| {
            first.add(job);
            thread::sleep(5 * LEASE);
            async {}
        };
        Builder::new_current_thread().enable_all().build().unwrap().block_on(worker.run(handle, stop.notified()));
    });
    schedule(queue.clone(), [2_000, 2_500, 2_500, 2_500], Duration::ZERO).await;
    wait(async || runs.count() == 1).await; // the others are in its map
    start(server.queue(LEASE), Duration::ZERO, &runs, &Arc::default());
    all_acknowledged(&queue).await;
    done.notify_one();
    tokio::task::spawn_blocking(|| blocked.join().unwrap()).await.unwrap();
    assert!(runs.check(4) <= 2 && runs.count() <= 5, "only the first job may run twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_worker_claims_more_when_a_job_is_done_and_not_before() {
    let server = Server::start();
    let queue = server.queue(FOREVER);
    schedule(queue.clone(), [0; 6], Duration::ZERO).await;
    let (done, running) = (Notify::new(), Arc::new(()));
    let worker = Worker { queue: queue.clone(), window: FOREVER, batch: 10, held: 2 };
    let handle = |_| {
        let running = Arc::clone(&running);
        assert!(Arc::strong_count(&running) <= 3, "at most two at a time");
        async move {
            sleep(ms(200)).await;
            drop(running);
        }
    };
    let check = async {
        all_acknowledged(&queue).await;
        done.notify_one();
    };
    tokio::join!(worker.run(handle, done.notified()), check);
    let claims = queue.open_session().await.unwrap(); // sessions and claims share their numbers
    assert!(claims < 30, "{claims} claims for 6 jobs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_claim_gets_the_same_jobs_and_a_late_copy_of_it_none() {
    let server = Server::start();
    let queue = server.queue(FOREVER);
    schedule(queue.clone(), [0, 1, 2], Duration::ZERO).await;
    let claim = async |session, number| {
        let jobs = queue.claim(session, number, FOREVER, 1).await.unwrap()?;
        Some(jobs.into_iter().map(|(job, _)| job.name).collect::<String>())
    };
    let session = queue.open_session().await.unwrap();
    for (number, job) in [(1, "job-0"), (1, "job-0"), (2, "job-1"), (1, "job-1"), (3, "job-2")] {
        assert_eq!(claim(session, number).await.unwrap(), job);
    }

    // A session that has ended claims and acknowledges nothing.
    queue.close_session(session).await.unwrap();
    assert_eq!(claim(session, 4).await, None);
    assert_eq!(queue.acknowledge(session, "job-0").await, Ok(false));
    assert_eq!(queue.unacknowledged().await, Ok(3));
}
