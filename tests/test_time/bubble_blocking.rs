//! In a bubble everything that can hold time does, on every system: tasks, sockets, the bubble's own future, files, and
//! blocking work, however it was started.

use std::future::Future;
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::{HOUR, Random, maybe_in_a_task, ms, must_end, panic_message, rounds, step};
use hairspring::test_util::{self, Bubble};
use hairspring::{Duration, Instant, sleep, timeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking, yield_now};

const MICRO: Duration = Duration::from_micros(1);

/// The runtime of a bubble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneThread,
    Workers(usize),
}

const KINDS: [Kind; 2] = [Kind::OneThread, Kind::Workers(2)];

impl Kind {
    fn run<F: Future>(self, bubble: Bubble, code: impl FnOnce() -> F) -> F::Output {
        match self {
            Kind::OneThread => bubble.run(code),
            Kind::Workers(workers) => bubble.workers(workers).run(code),
        }
    }
}

/// Runs `test` in a bubble of each kind, as the bubble's own future and as a task of it, and fails if it hangs.
fn in_bubbles<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for kind in KINDS {
        for in_task in [false, true] {
            let test = test.clone();
            println!("{kind:?}, {}", if in_task { "in a task" } else { "in its own future" });
            must_end(move || {
                kind.run(Bubble::new(), || maybe_in_a_task(in_task, test));
            });
        }
    }
}

/// Waits for `work` beside timers that are due soon, during which no time may pass, and then for an hour, which must
/// pass.
async fn no_time_passes_during<T>(work: impl Future<Output = T>) -> T {
    let before = Instant::now();
    let others = [Duration::from_nanos(1), MICRO, ms(1), HOUR].map(|soon| tokio::spawn(sleep(soon)));
    let done = timeout(MICRO, work).await.expect("time went on without it");
    assert_eq!(before.elapsed(), Duration::ZERO, "time went on");
    assert!(others.iter().all(|other| !other.is_finished()), "a timer fired");
    sleep(HOUR).await;
    assert_eq!(before.elapsed(), HOUR);
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(before.elapsed(), HOUR);
    step();
    done
}

fn computes_for(length: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// A directory of its own for each test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("hairspring-bubble-{}-{}", std::process::id(), NUMBER.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_blocking_task() {
    in_bubbles(|| async {
        for length in [0, 1, 5, 30] {
            let work = spawn_blocking(move || {
                thread::sleep(ms(length));
                length
            });
            assert_eq!(no_time_passes_during(work).await.unwrap(), length);
        }
        no_time_passes_during(spawn_blocking(|| computes_for(ms(30)))).await.unwrap();
        no_time_passes_during(test_util::spawn_blocking(|| thread::sleep(ms(5)))).await.unwrap();
    });
}

/// Half a second in one place, and more.
#[test]
fn a_blocking_task_that_takes_long() {
    in_bubbles(|| async {
        no_time_passes_during(spawn_blocking(|| thread::sleep(ms(1_300)))).await.unwrap();
        let (sender, word) = mpsc::channel();
        let sends = thread::spawn(move || {
            thread::sleep(ms(1_300));
            sender.send(5).unwrap();
        });
        assert_eq!(no_time_passes_during(spawn_blocking(move || word.recv().unwrap())).await.unwrap(), 5);
        sends.join().unwrap();
    });
}

#[test]
fn a_blocking_task_that_waits_for_another_thread() {
    in_bubbles(|| async {
        let lock = Arc::new(Mutex::new(()));
        let (locked, is_locked) = mpsc::channel();
        let held = lock.clone();
        let holder = thread::spawn(move || {
            let _held = held.lock().unwrap();
            locked.send(()).unwrap();
            thread::sleep(ms(50));
        });
        is_locked.recv().unwrap();
        no_time_passes_during(spawn_blocking(move || drop(lock.lock().unwrap()))).await.unwrap();
        holder.join().unwrap();

        let (sender, word) = mpsc::channel();
        let sends = thread::spawn(move || {
            thread::sleep(ms(50));
            sender.send(()).unwrap();
        });
        let both = move || (word.recv_timeout(HOUR).is_ok(), word.recv().is_ok());
        assert_eq!(no_time_passes_during(spawn_blocking(both)).await.unwrap(), (true, false));
        sends.join().unwrap();
    });
}

/// What the work waits for takes no time.
#[test]
fn a_blocking_task_that_waits_for_a_task() {
    in_bubbles(|| async {
        for _ in 0..20 {
            let (sender, answer) = oneshot::channel();
            tokio::spawn(async move {
                for _ in 0..10 {
                    yield_now().await;
                }
                sender.send(5).unwrap();
            });
            let work = spawn_blocking(|| answer.blocking_recv().unwrap());
            assert_eq!(no_time_passes_during(work).await.unwrap(), 5);
            let work =
                spawn_blocking(|| Handle::current().block_on(async { tokio::spawn(yield_now()).await.unwrap() }));
            no_time_passes_during(work).await.unwrap();
        }
    });
}

#[test]
fn a_blocking_task_that_starts_another() {
    in_bubbles(|| async {
        for _ in 0..5 {
            let inner = || {
                thread::sleep(ms(2));
                spawn_blocking(|| thread::sleep(ms(10)))
            };
            no_time_passes_during(async { spawn_blocking(inner).await.unwrap().await.unwrap() }).await;
        }
    });
}

/// It wakes a task while it still runs.
#[test]
fn a_blocking_task_holds_time_until_it_ends_though_nobody_waits_for_it() {
    in_bubbles(|| async {
        for round in 0..20 {
            let (start, done) = (Instant::now(), Arc::<AtomicBool>::default());
            let (sender, answer) = oneshot::channel();
            let sets = done.clone();
            drop(spawn_blocking(move || {
                thread::sleep(ms(round % 3));
                sender.send(()).unwrap();
                thread::sleep(ms(3));
                sets.store(true, SeqCst);
            }));
            answer.await.unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO);
            sleep(if round % 2 == 0 { MICRO } else { HOUR }).await;
            assert!(done.load(SeqCst), "time went on before the work ended");
        }
    });
}

#[test]
fn a_blocking_task_that_panics_or_is_aborted_lets_time_pass() {
    in_bubbles(|| async {
        for _ in 0..10 {
            let panics = spawn_blocking(|| {
                thread::sleep(ms(2));
                panic!("on purpose");
            });
            assert!(no_time_passes_during(panics).await.unwrap_err().is_panic());
            let aborted = spawn_blocking(|| thread::sleep(ms(2)));
            aborted.abort();
            let _ = no_time_passes_during(aborted).await;
        }
    });
}

#[test]
fn many_blocking_tasks_at_a_time() {
    in_bubbles(|| async {
        for _ in 0..3 {
            let mut tasks: JoinSet<()> = JoinSet::new();
            for n in 0..32 {
                tasks.spawn_blocking(move || thread::sleep(ms(n * 7 % 16 * 3)));
            }
            no_time_passes_during(tasks.join_all()).await;
        }
    });
}

/// More than the pool has threads for: the rest waits in its queue.
#[test]
fn more_blocking_tasks_than_threads() {
    in_bubbles(|| async {
        let done = Arc::<AtomicUsize>::default();
        let tasks: Vec<_> = (0..1_200)
            .map(|_| {
                let counts = done.clone();
                spawn_blocking(move || {
                    thread::sleep(ms(10));
                    counts.fetch_add(1, SeqCst);
                })
            })
            .collect();
        sleep(MICRO).await;
        assert_eq!(done.load(SeqCst), 1_200);
        for task in tasks {
            task.await.unwrap();
        }
        no_time_passes_during(spawn_blocking(|| thread::sleep(ms(10)))).await.unwrap();
    });
}

/// A step of less than a millisecond, which waits for half a second and more.
#[test]
fn a_fraction_after_long_blocking_work() {
    in_bubbles(|| async {
        let (start, nap) = (Instant::now(), Duration::from_nanos(500_123));
        let work = spawn_blocking(|| thread::sleep(ms(900)));
        let sleeps = tokio::spawn(sleep(nap));
        work.await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleeps.await.unwrap();
        assert_eq!(start.elapsed(), nap);
    });
}

#[test]
fn thousands_of_short_blocking_tasks() {
    in_bubbles(|| async {
        for round in rounds(3_000) {
            let (before, spins) = (Instant::now(), round % 50);
            let work = spawn_blocking(move || (0..spins).for_each(|_| thread::yield_now()));
            timeout(MICRO, work).await.expect("time went on without it").unwrap();
            assert_eq!(before.elapsed(), Duration::ZERO, "in round {round}");
            let nap = if round % 2 == 0 { MICRO } else { HOUR };
            sleep(nap).await;
            assert_eq!(before.elapsed(), nap, "in round {round}");
        }
    });
}

/// Work that takes real time, in many tasks that sleep: each sleep ends at its own instant.
#[test]
fn tasks_that_block_and_sleep_in_turn_do_so_at_their_times() {
    in_bubbles(|| async {
        let tasks = (0..8).map(|seed| async move {
            let (start, mut random, mut slept) = (Instant::now(), Random::new(seed), Duration::ZERO);
            for _ in 0..15 {
                let (nap, micros) = (random.pick(&[MICRO, ms(1), HOUR]), random.below(2_000));
                let nap = random.duration(nap);
                sleep(nap).await;
                slept += nap;
                assert_eq!(start.elapsed(), slept);
                spawn_blocking(move || thread::sleep(Duration::from_micros(micros))).await.unwrap();
                assert_eq!(start.elapsed(), slept);
            }
        });
        tasks.collect::<JoinSet<_>>().join_all().await;
    });
}

/// A bug that this crate had: the clock of a paused multi-thread runtime moved while tokio read a file, looked up a
/// host or ran a plain `spawn_blocking`: tokio's stable metrics do not count that work. In a bubble it is counted.
#[test]
fn files_are_read_and_written() {
    let directory = Directory::new();
    let path = directory.0.join("file");
    in_bubbles(move || {
        let path = path.clone();
        async move {
            for round in 0..20_usize {
                let written = vec![7; round * 100_000];
                no_time_passes_during(tokio::fs::write(&path, &written)).await.unwrap();
                assert_eq!(no_time_passes_during(tokio::fs::read(&path)).await.unwrap(), written);
            }
            let edits = async {
                let mut file = tokio::fs::OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
                file.write_all(b"word").await.unwrap();
                file.flush().await.unwrap();
                file.sync_all().await.unwrap();
                file.rewind().await.unwrap();
                let mut word = [0; 4];
                file.read_exact(&mut word).await.unwrap();
                word
            };
            assert_eq!(&no_time_passes_during(edits).await, b"word");
            let lists = async {
                let mut entries = tokio::fs::read_dir(path.parent().unwrap()).await.unwrap();
                entries.next_entry().await.unwrap().unwrap().file_name()
            };
            assert_eq!(no_time_passes_during(lists).await, "file");
        }
    });
}

/// A file that takes real time.
#[cfg(unix)]
#[test]
fn a_pipe_is_read() {
    let directory = Directory::new();
    let pipe = directory.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    in_bubbles(move || {
        let pipe = pipe.clone();
        async move {
            for _ in 0..5 {
                let end = pipe.clone();
                let writer = thread::spawn(move || {
                    thread::sleep(ms(20));
                    std::fs::write(end, "word").unwrap();
                });
                assert_eq!(no_time_passes_during(tokio::fs::read(&pipe)).await.unwrap(), b"word");
                writer.join().unwrap();
            }
        }
    });
}

#[test]
fn a_hosts_address_is_looked_up() {
    in_bubbles(|| async {
        for _ in 0..10 {
            let addresses = no_time_passes_during(tokio::net::lookup_host("localhost:80")).await;
            assert!(addresses.is_ok_and(|mut all| all.next().is_some()));
        }
    });
}

/// A computation, or a call that blocks, where the test itself runs: the bubble's future or a task.
#[test]
fn code_that_blocks_between_two_awaits() {
    in_bubbles(|| async {
        for (length, blocks) in [
            (ms(20), thread::sleep as fn(Duration)),
            (ms(20), computes_for),
            (ms(1), thread::sleep),
            (MICRO, computes_for),
        ] {
            for _ in 0..10 {
                let start = Instant::now();
                let (sender, woken) = oneshot::channel();
                let naps = tokio::spawn(async move {
                    sleep(HOUR).await;
                    sender.send(()).unwrap();
                    sleep(MICRO).await;
                });
                woken.await.unwrap();
                blocks(length);
                assert_eq!(start.elapsed(), HOUR);
                assert!(!naps.is_finished());
                naps.await.unwrap();
                assert_eq!(start.elapsed(), HOUR + MICRO);
                step();
            }
        }
    });
}

/// Sends words of random lengths there and back.
async fn echoes(mut near: impl AsyncRead + AsyncWrite + Unpin, far: impl AsyncRead + AsyncWrite + Send + 'static) {
    let echo = tokio::spawn(async move {
        let (mut reads, mut writes) = tokio::io::split(far);
        tokio::io::copy(&mut reads, &mut writes).await.unwrap();
        writes.shutdown().await.unwrap();
    });
    let mut random = Random::new(1);
    for _ in 0..100 {
        let length = random.pick(&[1, 10, 1_000, 100_000]);
        let word = vec![7; length];
        let (mut reads, mut writes) = tokio::io::split(&mut near);
        let mut back = vec![0; length];
        let both = async { tokio::try_join!(writes.write_all(&word), reads.read_exact(&mut back)) };
        let before = Instant::now();
        timeout(MICRO, both).await.expect("time went on without it").unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(back, word);
        sleep(random.pick(&[MICRO, HOUR])).await;
        step();
    }
    near.shutdown().await.unwrap();
    echo.await.unwrap();
}

#[test]
fn messages_through_sockets() {
    in_bubbles(|| async {
        let (near, far) = tokio::io::duplex(1_000);
        echoes(near, far).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let connected = no_time_passes_during(async { tokio::try_join!(connect, listener.accept()) }).await;
        let (near, (far, _)) = connected.unwrap();
        // Without this the system waits for some real time before it sends, which nothing shows.
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        echoes(near, far).await;
        #[cfg(unix)]
        {
            let (near, far) = tokio::net::UnixStream::pair().unwrap();
            echoes(near, far).await;
        }
    });
}

/// Longer than its patience.
#[test]
fn a_bubble_is_not_given_up_during_blocking_work_and_is_after_it() {
    for kind in KINDS {
        let message = must_end(move || {
            let ended = Arc::<AtomicBool>::default();
            let sets = ended.clone();
            let message = panic_message(|| {
                kind.run(Bubble::new().patience(ms(500)), || async {
                    spawn_blocking(|| thread::sleep(ms(1_200))).await.unwrap();
                    let (_kept, never) = oneshot::channel::<()>();
                    drop(spawn_blocking(move || {
                        thread::sleep(ms(1_200));
                        sets.store(true, SeqCst);
                    }));
                    let _ = never.await;
                });
            });
            assert!(ended.load(SeqCst), "it was given up early");
            message
        });
        assert!(message.starts_with("deadlock: nothing is left to wake the bubble"), "{message}");
    }
}

/// All of the above once more, on a system that shows a program nothing of its threads.
#[cfg(target_os = "linux")]
#[test]
fn none_of_this_reads_proc() {
    const WITHIN: &str = "HAIRSPRING_WITHOUT_PROC";
    if std::env::var_os(WITHIN).is_some() {
        assert_eq!(std::fs::read_dir("/proc").unwrap().count(), 0);
        return;
    }
    let without_proc = |then: &str| {
        let script = format!("mount -t tmpfs none /proc && {then}");
        let mut run = Command::new("unshare");
        run.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(std::env::current_exe().unwrap());
        run.env(WITHIN, "yes");
        run
    };
    if !without_proc("true").output().is_ok_and(|output| output.status.success()) {
        println!("this system does not let a program hide /proc from another");
        return;
    }
    let output =
        without_proc("exec \"$0\" bubble_blocking:: --skip long --skip thousands --skip given_up").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
