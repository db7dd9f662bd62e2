//! Several worker processes on a real server, some of them killed, and the server killed.

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Handled, Server, Workers, all_acknowledged, schedule, wait};
use hairspring::sleep;
use shared_deadlines::{Batch, Queue, Worker};
use tokio::sync::Notify;

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// So long that no lease ends, and no worker looks a second time unless it is called.
const FOREVER: Duration = Duration::from_secs(3_600);
/// So short that the jobs of a killed worker are soon claimed by another.
const LEASE: Duration = ms(1_000);
const JOBS: usize = 300;

struct Checked {
    /// How often a job was handled, at most.
    most: usize,
    /// How many were handled more than once.
    repeated: usize,
    /// How late a job was begun, at most.
    late: Duration,
}

/// Checks that all jobs were handled, none early, and each time with a greater token.
fn check(workers: &Workers, jobs: usize) -> Checked {
    let handled = workers.handled();
    assert_eq!(handled.len(), jobs);
    let mut checked = Checked { most: 0, repeated: 0, late: Duration::ZERO };
    for (name, times) in handled {
        for Handled { deadline, begun, .. } in &times {
            assert!(begun >= deadline, "{name} was due at {deadline}, and begun at {begun}");
            checked.late = checked.late.max(Duration::from_micros(begun - deadline));
        }
        let tokens: HashSet<_> = times.iter().map(|handled| handled.token).collect();
        assert_eq!(tokens.len(), times.len(), "{name}: a token for each time in {times:?}");
        checked.most = checked.most.max(times.len());
        checked.repeated += usize::from(times.len() > 1);
    }
    checked
}

#[tokio::test]
async fn each_job_is_handled_once_and_none_early() {
    let server = Server::start();
    let queue = server.queue(FOREVER);
    let mut workers = Workers::start(&server, 3, FOREVER, ms(300));
    for job in 0..JOBS {
        schedule(&queue, job, ms(1_000 + job as u64 * 7 % 2_000)).await;
    }
    // One leaves while it has jobs: what it has begun is finished, and the rest goes to the others.
    wait(async || !workers.lines(0).is_empty()).await;
    workers.signal("-TERM");
    assert!(workers.wait_for_first());
    all_acknowledged(&queue).await;
    assert_eq!(queue.schedule("job-0", "payload", Duration::ZERO).await, Ok(false), "it was done lately");

    let Checked { most, late, .. } = check(&workers, JOBS);
    assert_eq!(most, 1);
    println!("{JOBS} jobs, 3 workers, one of which left: each handled once, {late:.1?} late at most");
}

/// Schedules a job every 10 ms, each after a delay of its own. Returns the queue.
async fn produce(queue: Queue, delay: fn(usize) -> Duration) -> Queue {
    for job in 0..JOBS {
        schedule(&queue, job, delay(job)).await;
        sleep(ms(10)).await;
    }
    queue
}

#[tokio::test]
async fn a_server_that_is_killed_loses_no_job_and_repeats_none_while_the_workers_live() {
    let mut server = Server::start();
    let queue = server.queue(FOREVER);
    let workers = Workers::start(&server, 2, FOREVER, ms(5));
    let producer = tokio::spawn(produce(queue, |_| ms(500)));
    for count in [30, 100, 200] {
        wait(async || workers.handled().len() > count).await;
        server.kill();
        sleep(ms(200)).await;
        server.restart();
    }
    all_acknowledged(&producer.await.unwrap()).await;

    let Checked { most, late, .. } = check(&workers, JOBS);
    assert_eq!(most, 1);
    println!("{JOBS} jobs, 2 workers, the server killed 3 times: each handled once, {late:.1?} late at most");
}

#[tokio::test]
async fn killed_workers_and_a_killed_server_lose_no_job() {
    let mut server = Server::start();
    let queue = server.queue(LEASE);
    let mut workers = Workers::start(&server, 4, LEASE, ms(20));
    let producer = tokio::spawn(produce(queue, |job| ms(job as u64 * 11 % 1_500)));
    let mut killed = 0;
    while !producer.is_finished() {
        wait(async || !workers.lines(killed).is_empty() || producer.is_finished()).await;
        workers.signal("-KILL");
        assert!(!workers.wait_for_first());
        workers.add();
        killed += 1;
        if killed % 3 == 0 {
            server.kill();
            sleep(ms(100)).await;
            server.restart();
        }
        sleep(ms(400)).await;
    }
    all_acknowledged(&producer.await.unwrap()).await;

    let Checked { most, repeated, late } = check(&workers, JOBS);
    let restarts = killed / 3;
    println!("{JOBS} jobs, 4 workers, {killed} killed, and the server {restarts} times: each handled,");
    println!("{repeated} more than once, {most} times at most, {late:.1?} late at most");
}

/// A process that is stopped cannot notice that its lease has ended until it goes on.
#[tokio::test]
async fn a_worker_that_was_stopped_beyond_its_lease_begins_nothing_that_another_has_done() {
    let server = Server::start();
    let queue = server.queue(LEASE);
    let mut workers = Workers::start(&server, 1, LEASE, Duration::ZERO);
    for job in 0..10 {
        schedule(&queue, job, ms(10_000)).await;
    }
    wait(async || queue.unclaimed().await == Ok(0)).await;
    workers.signal("-STOP"); // with all jobs waiting in its map
    workers.add();
    all_acknowledged(&queue).await;
    workers.signal("-CONT");
    wait(async || workers.has_lost_its_lease(0)).await;

    let Checked { most, .. } = check(&workers, 10);
    assert_eq!((most, workers.lines(1).len()), (1, 10));
}

/// More jobs than a worker may hold, all due at once.
#[tokio::test]
async fn a_worker_that_is_full_claims_more_when_a_job_is_done_and_not_before() {
    let server = Server::start();
    let queue = server.queue(FOREVER);
    for job in 0..6 {
        schedule(&queue, job, Duration::ZERO).await;
    }
    let (done, running) = (Notify::new(), Arc::new(AtomicUsize::new(0)));
    let worker = Worker { queue: queue.clone(), window: FOREVER, batch: 10, held: 2 };
    let handle = |_| {
        let running = Arc::clone(&running);
        async move {
            assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
            sleep(ms(200)).await;
            running.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let check = async {
        all_acknowledged(&queue).await;
        done.notify_one();
    };
    tokio::join!(worker.run(handle, done.notified()), check);
    let looks = queue.open_session().await.unwrap(); // numbered like them
    assert!(looks < 30, "{looks} looks for 6 jobs");
}

#[tokio::test]
async fn a_look_whose_answer_was_lost_gives_the_same_jobs_and_a_late_copy_of_it_claims_none() {
    let server = Server::start();
    let queue = server.queue(FOREVER);
    for job in 0..3 {
        schedule(&queue, job, ms(job as u64)).await;
    }
    let names = |batch: Batch| batch.jobs.into_iter().map(|job| job.name).collect::<Vec<_>>();
    let look = async |session, number| queue.look(session, number, FOREVER, 1).await.unwrap().map(names);
    let session = queue.open_session().await.unwrap();
    assert_eq!(look(session, 1).await, Some(vec!["job-0".into()]));
    assert_eq!(look(session, 1).await, Some(vec!["job-0".into()]));
    assert_eq!(look(session, 2).await, Some(vec!["job-1".into()]));
    look(session, 1).await;
    assert_eq!(queue.unclaimed().await, Ok(1));

    // A session that is over claims nothing, and acknowledges nothing.
    queue.close_session(session).await.unwrap();
    assert_eq!(queue.unclaimed().await, Ok(3));
    assert_eq!(look(session, 3).await, None);
    assert_eq!(queue.acknowledge(session, "job-0").await, Ok(false));
    assert_eq!(queue.unacknowledged().await, Ok(3));
}
