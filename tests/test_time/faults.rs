//! What keeps a paused clock from moving, and what must not: threads that have left a runtime, threads that are in one,
//! holds and rates, busy machines, and steps of less than a millisecond.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(unix)]
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use crate::common::{
    HOUR, HUNG, Random, World, bare, current_thread, in_worlds, ms, multi_thread, must_end, on_wake, paused, poll_with,
    rounds, step, threads_are_seen,
};
use hairspring::test_util::{self, ManualClock, advance_and_settle, bubble, settle};
use hairspring::{Duration, Instant, Timer, pause, sleep, sleep_until};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

const MICRO: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);

/// How long a few jumps of a clock may take, in real time: a thousand times what they take.
const SOON: Duration = Duration::from_secs(15);

/// Those whose clock is tokio's.
const WORLDS: [World; 3] = [(paused, || ()), (current_thread, pause), (current_thread, tokio::time::pause)];

/// Threads that were in a paused multi-thread runtime, and have left it.
mod left {
    use super::*;

    /// Gets the current thread into a runtime, calls a function there, and gets out.
    type Way = (&'static str, fn(&Runtime, &dyn Fn()));

    const RETURNED: Way = ("block_on returned", |runtime, inside| runtime.block_on(async { inside() }));
    const LET_GO: Way = ("a guard was dropped", |runtime, inside| {
        let _guard = runtime.enter();
        inside();
    });

    const WAYS: [Way; 9] = [
        RETURNED,
        LET_GO,
        ("block_on returned after a sleep", |runtime, inside| {
            runtime.block_on(async {
                inside();
                sleep(HOUR).await;
            });
        }),
        ("block_on returned three times", |runtime, inside| {
            runtime.block_on(async { inside() });
            for _ in 0..2 {
                runtime.block_on(async { assert!(Instant::now() <= Instant::now()) });
            }
        }),
        ("Handle::block_on returned", |runtime, inside| {
            runtime.handle().block_on(async {
                inside();
                sleep(HOUR).await;
            });
        }),
        ("block_on panicked", |runtime, inside| {
            let left = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    inside();
                    panic!("on purpose");
                })
            }));
            assert!(left.is_err());
        }),
        ("a guard was dropped after that of another runtime", |runtime, inside| {
            let _guard = runtime.enter();
            inside();
            let other = current_thread();
            let _other = other.enter();
            assert!(Instant::now() <= Instant::now());
        }),
        ("a LocalSet ended", |runtime, inside| {
            LocalSet::new().block_on(runtime, async {
                inside();
                tokio::task::spawn_local(sleep(HOUR)).await.unwrap();
            });
        }),
        ("another executor ended inside", |runtime, inside| {
            let _guard = runtime.enter();
            futures::executor::block_on(async {
                inside();
                sleep(HOUR).await;
            });
        }),
    ];

    /// What a thread does after it has left: it blocks until it is released.
    struct Then {
        blocks: Box<dyn FnOnce() + Send>,
        release: Box<dyn FnOnce() + Send>,
    }

    impl Then {
        fn new(blocks: impl FnOnce() + Send + 'static, release: impl FnOnce() + Send + 'static) -> Then {
            Then { blocks: Box::new(blocks), release: Box::new(release) }
        }

        /// Calls `step` again and again until it is released.
        fn repeats(mut step: impl FnMut() + Send + 'static) -> Then {
            let over = Arc::<AtomicBool>::default();
            let ends = over.clone();
            let blocks = move || {
                while !over.load(SeqCst) {
                    step();
                }
            };
            Then::new(blocks, move || ends.store(true, SeqCst))
        }

        /// Waits for a message of tokio's.
        fn waits(wait: impl FnOnce(oneshot::Receiver<()>) + Send + 'static) -> Then {
            let (sender, answer) = oneshot::channel();
            Then::new(move || wait(answer), move || sender.send(()).unwrap())
        }

        /// The same in another runtime.
        fn waits_in(other: impl FnOnce() -> Runtime + Send + 'static) -> Then {
            Then::waits(|answer| other().block_on(answer).unwrap())
        }
    }

    /// Runs pieces of code one after the other on one thread.
    #[derive(Clone, Copy)]
    enum Host {
        OwnThread,
        /// The only thread of another runtime's pool.
        PoolOfAnother,
        /// The only worker of another runtime.
        WorkerOfAnother,
        /// The same for the first piece. It is idle during the second.
        IdleWorkerOfAnother,
    }

    impl Host {
        fn run(self, first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
            thread::spawn(move || match self {
                Host::OwnThread => {
                    first();
                    second();
                }
                Host::PoolOfAnother => {
                    let mut builder = Builder::new_current_thread();
                    let other = builder.max_blocking_threads(1).enable_all().build().unwrap();
                    let (first, second) = (other.spawn_blocking(first), other.spawn_blocking(second));
                    other.block_on(async { (first.await.unwrap(), second.await.unwrap()) });
                }
                Host::WorkerOfAnother => {
                    let other = multi_thread(1);
                    let (first, second) = (other.spawn(async { first() }), other.spawn(async { second() }));
                    other.block_on(async { (first.await.unwrap(), second.await.unwrap()) });
                }
                Host::IdleWorkerOfAnother => {
                    let other = multi_thread(1);
                    other.block_on(other.spawn(async { first() })).unwrap();
                    second();
                }
            })
        }
    }

    /// Whether the clock of a runtime moves, and `settle` returns, while a thread that left in a certain way blocks.
    fn goes_on(host: Host, (name, way): Way, then: Then) -> Result<(), String> {
        let runtime = Arc::new(multi_thread(2));
        let ((go, may_begin), (ends, ended)) = (oneshot::channel(), mpsc::channel());
        let task = Mutex::new(Some(async move {
            may_begin.await.unwrap();
            let start = Instant::now();
            for _ in 0..5 {
                sleep(HOUR).await;
                settle().await;
            }
            ends.send(start.elapsed()).unwrap();
        }));
        let (leaves, has_left) = mpsc::channel();
        let entered = runtime.clone();
        let first = move || {
            way(&entered, &|| {
                pause();
                assert!(Instant::now() <= Instant::now());
                let _spawned = tokio::spawn(task.lock().unwrap().take().unwrap());
            });
            drop(entered);
            leaves.send(()).unwrap();
        };
        let thread = host.run(first, then.blocks);
        has_left.recv_timeout(HUNG).unwrap();
        // By now it most probably blocks.
        thread::sleep(ms(30));
        let real = std::time::Instant::now();
        go.send(()).unwrap();
        let passed = ended.recv_timeout(SOON);
        println!("{name}: {:?}", real.elapsed());
        (then.release)();
        thread.join().unwrap();
        if let Some(runtime) = Arc::into_inner(runtime) {
            runtime.shutdown_background();
        }
        match passed {
            Ok(passed) if passed == 5 * HOUR => Ok(()),
            Ok(passed) => Err(format!("{name}: {passed:?} have passed, not five hours")),
            Err(_) => Err(format!("{name}: the clock stands")),
        }
    }

    fn goes_on_after(ways: &[(Host, Way)], then: impl Fn() -> Then + Sync) {
        let failures: Vec<String> = thread::scope(|scope| {
            let checks = ways.iter().map(|&(host, way)| (host, way, then()));
            let threads: Vec<_> =
                checks.map(|(host, way, then)| scope.spawn(move || goes_on(host, way, then))).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect()
        });
        assert!(failures.is_empty(), "{} of {} ways: {failures:#?}", failures.len(), ways.len());
    }

    /// After each way to leave, on a thread of the test's own.
    fn after_each_way(then: impl Fn() -> Then + Sync) {
        goes_on_after(&WAYS.map(|way| (Host::OwnThread, way)), then);
    }

    /// A bug that this crate had: a thread that had left a paused multi-thread runtime stopped its clock, unless it
    /// waited on a futex.
    #[test]
    fn it_sleeps() {
        after_each_way(|| Then::repeats(|| thread::sleep(ms(100))));
    }

    #[test]
    fn it_ends() {
        after_each_way(|| Then::new(|| (), || ()));
    }

    #[test]
    fn it_accepts_a_connection() {
        after_each_way(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let accepts = move || drop(listener.accept().unwrap());
            Then::new(accepts, move || drop(TcpStream::connect(address).unwrap()))
        });
    }

    #[test]
    fn it_reads_from_a_socket() {
        after_each_way(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut near, _) = listener.accept().unwrap();
            Then::new(move || assert_eq!(near.read(&mut [0]).unwrap(), 0), move || drop(far))
        });
    }

    #[cfg(unix)]
    fn child() -> std::process::Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn it_reads_from_a_child() {
        after_each_way(|| {
            let mut cat = child();
            let (input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
            let reads = move || {
                assert_eq!(output.read(&mut [0]).unwrap(), 0);
                cat.wait().unwrap();
            };
            Then::new(reads, move || drop(input))
        });
    }

    #[cfg(unix)]
    #[test]
    fn it_waits_for_a_child() {
        after_each_way(|| {
            let mut cat = child();
            let input = cat.stdin.take().unwrap();
            Then::new(move || assert!(cat.wait().unwrap().success()), move || drop(input))
        });
    }

    #[test]
    fn it_receives_a_message() {
        after_each_way(|| {
            let (sender, receiver) = mpsc::channel();
            Then::new(move || receiver.recv().unwrap(), move || sender.send(()).unwrap())
        });
    }

    #[test]
    fn it_receives_a_message_with_a_timeout() {
        after_each_way(|| {
            let (sender, receiver) = mpsc::channel();
            Then::new(move || receiver.recv_timeout(HOUR).unwrap(), move || sender.send(()).unwrap())
        });
    }

    /// Each time at another place of its stack, above and below where it was in the runtime.
    #[test]
    fn it_receives_messages_here_and_there() {
        fn deeper(depth: u32, receiver: &mpsc::Receiver<()>) -> Result<(), mpsc::RecvError> {
            let frame = std::hint::black_box([depth; 64]);
            if frame[63] == 0 { receiver.recv() } else { deeper(depth - 1, receiver) }
        }
        after_each_way(|| {
            let (sender, receiver) = mpsc::channel();
            let sends = Then::repeats(move || {
                let _ = sender.send(());
                thread::sleep(ms(50));
            });
            let blocks = move || {
                let mut depths = (0..1_000).cycle();
                while deeper(depths.next().unwrap(), &receiver).is_ok() {}
            };
            // Its end drops the sender.
            thread::spawn(sends.blocks);
            Then { blocks: Box::new(blocks), release: sends.release }
        });
    }

    #[test]
    fn it_waits_for_a_lock() {
        after_each_way(|| {
            let (lock, (release, released)) = (Arc::new(Mutex::new(())), mpsc::channel::<()>());
            let (locks, is_locked) = mpsc::channel();
            let held = lock.clone();
            thread::spawn(move || {
                let _held = held.lock().unwrap();
                locks.send(()).unwrap();
                let _ = released.recv();
            });
            is_locked.recv().unwrap();
            Then::new(move || drop(lock.lock().unwrap()), move || drop(release))
        });
    }

    #[test]
    fn it_waits_for_a_condition() {
        after_each_way(|| {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let other = pair.clone();
            let waits = move || drop(pair.1.wait_while(pair.0.lock().unwrap(), |over| !*over).unwrap());
            Then::new(waits, move || {
                *other.0.lock().unwrap() = true;
                other.1.notify_all();
            })
        });
    }

    #[test]
    fn it_waits_for_a_thread() {
        after_each_way(|| {
            let (sender, receiver) = mpsc::channel::<()>();
            let thread = thread::spawn(move || receiver.recv().is_err());
            Then::new(move || assert!(thread.join().unwrap()), move || drop(sender))
        });
    }

    #[test]
    fn it_is_parked_by_another_executor() {
        after_each_way(|| Then::waits(|answer| futures::executor::block_on(answer).unwrap()));
    }

    #[test]
    fn it_waits_for_a_message_of_a_task() {
        after_each_way(|| Then::waits(|answer| answer.blocking_recv().unwrap()));
    }

    #[test]
    fn it_waits_in_a_current_thread_runtime() {
        after_each_way(|| Then::waits_in(current_thread));
    }

    #[test]
    fn it_waits_in_a_multi_thread_runtime() {
        after_each_way(|| Then::waits_in(|| multi_thread(2)));
    }

    #[test]
    fn it_waits_in_runtimes_without_drivers() {
        after_each_way(|| Then::waits_in(|| bare().into_iter().next().unwrap()));
        after_each_way(|| Then::waits_in(|| bare().into_iter().last().unwrap()));
    }

    #[test]
    fn it_waits_in_other_runtimes_that_are_paused() {
        after_each_way(|| Then::waits_in(paused));
        after_each_way(|| {
            Then::waits(|answer| {
                multi_thread(1).block_on(async {
                    pause();
                    answer.await.unwrap();
                });
            })
        });
    }

    #[test]
    fn it_sleeps_in_other_runtimes() {
        for other in [current_thread, || multi_thread(1)] {
            after_each_way(|| Then::repeats(move || other().block_on(sleep(ms(20)))));
            after_each_way(|| Then::repeats(move || other().block_on(async { tokio::time::sleep(ms(20)).await })));
        }
    }

    #[test]
    fn it_blocks_in_other_runtimes() {
        for other in [current_thread, || multi_thread(1)] {
            after_each_way(|| Then::repeats(move || other().block_on(async { thread::sleep(ms(300)) })));
        }
    }

    /// Things that look different to the system.
    fn a_few() -> [fn() -> Then; 3] {
        [
            || Then::repeats(|| thread::sleep(ms(100))),
            || {
                let (sender, receiver) = mpsc::channel();
                Then::new(move || receiver.recv().unwrap(), move || sender.send(()).unwrap())
            },
            || Then::waits_in(current_thread),
        ]
    }

    #[test]
    fn a_thread_of_another_runtimes_pool() {
        for then in a_few() {
            goes_on_after(&WAYS.map(|way| (Host::PoolOfAnother, way)), then);
        }
    }

    #[test]
    fn a_worker_of_another_runtime() {
        // It cannot be in two runtimes.
        for then in &a_few()[..2] {
            goes_on_after(&[(Host::WorkerOfAnother, LET_GO)], then);
        }
        goes_on_after(&[(Host::IdleWorkerOfAnother, LET_GO)], || Then::repeats(|| thread::sleep(ms(100))));
    }

    /// Others are still in there, or come and go.
    #[test]
    fn one_of_several_threads() {
        must_end(|| {
            let runtime = Arc::new(multi_thread(2));
            let (ends, ended) = mpsc::channel();
            runtime.block_on(async { pause() });
            let over = Arc::<AtomicBool>::default();
            let others: Vec<_> = (0..4)
                .map(|number| {
                    let (runtime, over) = (runtime.clone(), over.clone());
                    thread::spawn(move || {
                        while !over.load(SeqCst) {
                            runtime.block_on(async {
                                let start = Instant::now();
                                sleep(HOUR).await;
                                assert_eq!(start.elapsed(), HOUR);
                            });
                            if number % 2 == 0 {
                                thread::sleep(ms(1));
                            }
                            step();
                        }
                    })
                })
                .collect();
            runtime.spawn(async move {
                for _ in 0..20 {
                    sleep(HOUR).await;
                    settle().await;
                }
                ends.send(()).unwrap();
            });
            let moves = ended.recv_timeout(4 * SOON);
            over.store(true, SeqCst);
            for other in others {
                other.join().unwrap();
            }
            moves.expect("the clock stands");
        });
    }

    /// Starts a server that takes some time for each answer, on its own paused runtime, with `block_on`.
    fn server(runtime: &Runtime) -> std::net::SocketAddr {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        runtime.block_on(async {
            pause();
            let start = Instant::now();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            sleep(SECOND).await;
            assert_eq!(start.elapsed(), SECOND);
            tokio::spawn(async move {
                loop {
                    let (mut client, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move {
                        let mut byte = [0];
                        while client.read_exact(&mut byte).await.is_ok() {
                            sleep(HOUR).await;
                            client.write_all(&byte).await.unwrap();
                        }
                    });
                }
            });
            address
        })
    }

    const REQUESTS: usize = 20;

    async fn requests(address: std::net::SocketAddr) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let mut server = tokio::net::TcpStream::connect(address).await.unwrap();
        for _ in 0..REQUESTS {
            server.write_all(&[7]).await.unwrap();
            server.read_exact(&mut [0]).await.unwrap();
        }
    }

    #[test]
    fn a_server_answers_a_client_on_the_thread_that_started_it() {
        type Client = (&'static str, fn(std::net::SocketAddr));
        let clients: [Client; 5] = [
            ("a current-thread runtime", |address| current_thread().block_on(requests(address))),
            ("a multi-thread runtime", |address| multi_thread(2).block_on(requests(address))),
            ("a task of a multi-thread runtime", |address| {
                multi_thread(2).block_on(async move { tokio::spawn(requests(address)).await.unwrap() });
            }),
            ("a paused runtime", |address| {
                multi_thread(2).block_on(async move {
                    pause();
                    requests(address).await;
                });
            }),
            ("a thread", |address| {
                let mut server = TcpStream::connect(address).unwrap();
                for _ in 0..REQUESTS {
                    server.write_all(&[7]).unwrap();
                    server.read_exact(&mut [0]).unwrap();
                }
            }),
        ];
        let failures: Vec<_> = thread::scope(|scope| {
            let threads = clients.map(|(name, client)| {
                scope.spawn(move || {
                    let (ends, ended) = mpsc::channel();
                    thread::spawn(move || {
                        let runtime = multi_thread(2);
                        client(server(&runtime));
                        ends.send(()).unwrap();
                    });
                    ended.recv_timeout(SOON).is_err().then_some(name)
                })
            });
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(failures.is_empty(), "the server's clock stands beside {failures:?}");
    }
}

/// Threads that are in `block_on`, and are doing something.
mod inside {
    use super::*;

    /// Twenty milliseconds of real time, and a moment.
    const BLOCKS: [fn(); 4] =
        [|| thread::sleep(ms(20)), || computes_for(ms(20)), || thread::sleep(ms(1)), || computes_for(100 * MICRO)];

    fn computes_for(length: Duration) {
        let start = std::time::Instant::now();
        while start.elapsed() < length {
            std::hint::spin_loop();
        }
    }

    /// A task wakes this future, and then waits for a timer that is due in a moment, while this future blocks.
    async fn holds_time() {
        for blocks in BLOCKS {
            for round in rounds(15) {
                let start = Instant::now();
                let (sender, answer) = oneshot::channel();
                let nap = if round % 2 == 0 { MICRO } else { HOUR };
                let naps = tokio::spawn(async move {
                    sleep(HOUR).await;
                    sender.send(()).unwrap();
                    sleep(nap).await;
                });
                answer.await.unwrap();
                blocks();
                assert_eq!(start.elapsed(), HOUR, "in round {round}");
                assert!(!naps.is_finished(), "in round {round}");
                naps.await.unwrap();
                assert_eq!(start.elapsed(), HOUR + nap, "in round {round}");
            }
        }
    }

    /// Runs `holds_time` on a paused runtime with some workers.
    fn on_workers(test: impl Fn(&Runtime) + Send + Clone + 'static) {
        if !threads_are_seen() {
            return;
        }
        for workers in [1, 2, 4] {
            let test = test.clone();
            must_end(move || test(&multi_thread(workers)));
        }
    }

    #[test]
    fn a_future_that_blocks() {
        on_workers(|runtime| {
            runtime.block_on(async {
                pause();
                holds_time().await;
            });
        });
    }

    #[test]
    fn a_future_that_blocks_after_the_thread_has_left_and_come_back() {
        on_workers(|runtime| {
            runtime.block_on(async { pause() });
            for _ in 0..2 {
                thread::sleep(ms(5));
                current_thread().block_on(sleep(ms(5)));
                runtime.block_on(holds_time());
            }
        });
    }

    #[test]
    fn futures_of_a_local_set_that_block() {
        on_workers(|runtime| {
            LocalSet::new().block_on(runtime, async {
                pause();
                tokio::task::spawn_local(holds_time()).await.unwrap();
            });
        });
    }

    #[test]
    fn a_future_that_blocks_on_another_thread() {
        on_workers(|runtime| {
            runtime.block_on(async { pause() });
            let handle = runtime.handle().clone();
            thread::spawn(move || handle.block_on(holds_time())).join().unwrap();
        });
    }

    /// While a task sleeps, computes for longer than any grace.
    fn no_time_passes_here() {
        pause();
        let start = Instant::now();
        let sleeps = tokio::spawn(sleep(HOUR));
        computes_for(ms(100));
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleeps.abort();
    }

    #[test]
    fn a_task_of_a_local_set_that_pauses() {
        on_workers(|runtime| {
            LocalSet::new().block_on(runtime, async {
                tokio::task::spawn_local(async { no_time_passes_here() }).await.unwrap();
            });
        });
    }

    #[test]
    fn a_runtime_in_the_task_or_the_blocking_work_of_another() {
        on_workers(|runtime| {
            let inner = || multi_thread(2).block_on(async { no_time_passes_here() });
            runtime.block_on(runtime.spawn_blocking(inner)).unwrap();
            runtime.block_on(runtime.spawn(async move { tokio::task::block_in_place(inner) })).unwrap();
        });
    }

    /// The runtime's own clock runs, and the future reads it.
    #[test]
    fn a_future_beside_a_clock_that_advances_by_itself() {
        on_workers(|runtime| {
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let sleeps = timer.sleep(HOUR);
                sleep(ms(5)).await;
                let (start, real) = (clock.now(), Instant::now());
                let sleeps = tokio::spawn(sleeps);
                computes_for(ms(100));
                assert!(real.elapsed() >= ms(100));
                assert_eq!(clock.now(), start);
                sleeps.await.unwrap();
            });
        });
    }

    /// Before it has waited in `block_on` for the first time.
    #[test]
    fn a_future_that_waits_for_a_thread() {
        on_workers(|runtime| {
            runtime.block_on(async {
                pause();
                let start = Instant::now();
                let sleeps = tokio::spawn(sleep(HOUR));
                thread::spawn(|| thread::sleep(ms(60))).join().unwrap();
                assert_eq!(start.elapsed(), Duration::ZERO);
                sleeps.await.unwrap();
            });
        });
    }

    /// The depth of its stack says nothing.
    #[test]
    fn a_future_that_blocks_deep_down() {
        fn deeper(depth: u32, runtime: &Runtime) {
            let frame = std::hint::black_box([depth; 64]);
            if frame[63] > 0 {
                deeper(depth - 1, runtime);
            } else {
                runtime.block_on(holds_time());
            }
        }
        on_workers(|runtime| {
            runtime.block_on(async { pause() });
            for depth in [0, 500, 1] {
                deeper(depth, runtime);
            }
        });
    }
}

/// What is in force as soon as the call returns.
mod in_force {
    use super::*;

    const TRIES: u32 = 300;

    /// Waits a moment, so that the thread that moves the clock is anywhere.
    fn moment(random: &mut Random) {
        let length = Duration::from_nanos(random.up_to_bits(21));
        if random.below(2) == 0 {
            thread::sleep(length);
        } else {
            let start = std::time::Instant::now();
            while start.elapsed() < length {
                std::hint::spin_loop();
            }
        }
    }

    /// A clock that runs fast, with timers that make each of its moves longer.
    struct Runs {
        clock: ManualClock,
        timer: Timer,
        sleeps: Vec<hairspring::Sleep>,
        random: Random,
    }

    impl Runs {
        fn new() -> Runs {
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().unwrap();
            Runs { clock, timer, sleeps: Vec::new(), random: Random::new(1) }
        }

        /// Runs for a moment.
        fn run_at(&mut self, rate: f64) {
            self.sleeps.clear();
            for _ in 0..100 {
                let mut sleep = self.timer.sleep(self.random.duration(ms(3)).mul_f64(rate));
                let _ = poll_with(&mut sleep, std::task::Waker::noop());
                self.sleeps.push(sleep);
            }
            self.clock.rate(rate);
            moment(&mut self.random);
        }

        /// How far it moves in a moment.
        fn moves(&mut self) -> Duration {
            let before = self.clock.now();
            moment(&mut self.random);
            self.clock.now() - before
        }

        fn waits_until_it_moves(&self) {
            let before = self.clock.now();
            while self.clock.now() == before {
                thread::yield_now();
            }
        }
    }

    const RATES: [f64; 2] = [1_000.0, 1e6];

    /// Fails if any of many tries of one rate or the other failed, with their number.
    fn never_fails(test: impl Fn(&mut Runs, f64) -> bool + Send + Sync + Clone + 'static) {
        for rate in RATES {
            let test = test.clone();
            let failed = must_end(move || {
                let mut runs = Runs::new();
                let try_once = |_: &u32| {
                    step();
                    !test(&mut runs, rate)
                };
                (0..TRIES).filter(try_once).count()
            });
            assert_eq!(failed, 0, "of {TRIES} tries at rate {rate}");
        }
    }

    /// A bug that this crate had: a hold, or a new rate, did not stop a step that was in progress: a clock moved by up
    /// to 555 s after `hold` returned.
    #[test]
    fn a_hold_of_a_clock_that_runs() {
        never_fails(|runs, rate| {
            runs.run_at(rate);
            let hold = runs.clock.hold();
            let is_still = runs.moves().is_zero();
            drop(hold);
            runs.waits_until_it_moves();
            is_still
        });
    }

    #[test]
    fn a_rate_of_zero() {
        never_fails(|runs, rate| {
            runs.run_at(rate);
            runs.clock.rate(0.0);
            runs.moves().is_zero()
        });
    }

    #[test]
    fn a_lower_rate() {
        never_fails(|runs, rate| {
            runs.run_at(rate);
            let real = std::time::Instant::now();
            runs.clock.rate(1.0);
            let moved = runs.moves();
            moved <= real.elapsed()
        });
    }

    #[test]
    fn a_lower_rate_after_a_hold() {
        never_fails(|runs, rate| {
            runs.run_at(rate);
            let hold = runs.clock.hold();
            moment(&mut runs.random);
            let real = std::time::Instant::now();
            runs.clock.rate(1.0);
            let is_still = runs.moves().is_zero();
            drop(hold);
            let moved = runs.moves();
            is_still && moved <= real.elapsed()
        });
    }

    /// The time during a hold does not count when it is over.
    #[test]
    fn the_end_of_a_hold() {
        never_fails(|runs, rate| {
            runs.clock.rate(0.0);
            let (start, real) = (runs.clock.now(), std::time::Instant::now());
            runs.run_at(rate);
            let hold = runs.clock.hold();
            let begun = std::time::Instant::now();
            moment(&mut runs.random);
            let length = begun.elapsed();
            drop(hold);
            moment(&mut runs.random);
            // A number of 53 bits is a rounded one.
            runs.clock.now() - start <= (real.elapsed() + MICRO).saturating_sub(length).mul_f64(rate)
        });
    }

    /// They are called while the clock moves, on the thread that moves it.
    #[test]
    fn what_a_waker_asks_for() {
        for asks_for_rate in [false, true] {
            must_end(move || {
                for _ in 0..TRIES {
                    step();
                    let clock = ManualClock::new();
                    let timer = Timer::builder().clock(&clock).build().unwrap();
                    let (kept, shown) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
                    let (keeps, looks, stops) = (kept.clone(), shown.clone(), clock.clone());
                    let waker = on_wake(move || {
                        if asks_for_rate {
                            stops.rate(0.0);
                        } else {
                            *keeps.lock().unwrap() = Some(stops.hold());
                        }
                        *looks.lock().unwrap() = Some(stops.now());
                    });
                    let mut sleep = timer.sleep(ms(1));
                    assert!(poll_with(&mut sleep, &waker).is_pending());
                    clock.rate(1_000.0);
                    while shown.lock().unwrap().is_none() {
                        thread::yield_now();
                    }
                    thread::sleep(3 * ms(1));
                    assert_eq!(shown.lock().unwrap().take(), Some(clock.now()));
                    assert_eq!(clock.now(), sleep.deadline());
                }
            });
        }
    }

    /// A runtime in which three tasks sleep again and again, and how often they have woken.
    struct Ticks {
        handle: Handle,
        woken: Arc<AtomicUsize>,
        stop: oneshot::Sender<()>,
        thread: JoinHandle<()>,
    }

    impl Ticks {
        fn begin((make, pause): World, nap: Duration) -> Ticks {
            let (runtime, woken, (stop, stopped)) = (make(), Arc::<AtomicUsize>::default(), oneshot::channel());
            let (handle, counts) = (runtime.handle().clone(), woken.clone());
            let thread = thread::spawn(move || {
                runtime.block_on(async {
                    pause();
                    for _ in 0..3 {
                        let counts = counts.clone();
                        tokio::spawn(async move {
                            loop {
                                sleep(nap).await;
                                counts.fetch_add(1, SeqCst);
                            }
                        });
                    }
                    let _ = stopped.await;
                });
            });
            let ticks = Ticks { handle, woken, stop, thread };
            ticks.go_on();
            ticks
        }

        fn woken(&self) -> usize {
            self.woken.load(SeqCst)
        }

        /// Waits until its clock moves.
        fn go_on(&self) {
            let (real, before) = (std::time::Instant::now(), self.woken());
            while self.woken() == before {
                assert!(real.elapsed() < SOON, "its clock stands");
                thread::yield_now();
            }
        }

        fn end(self) {
            drop(self.stop);
            self.thread.join().unwrap();
        }
    }

    /// On a plain thread, of a runtime that it is not in.
    fn a_hold_from_outside(world: World, nap: Duration) {
        let failed = must_end(move || {
            let (ticks, mut random) = (Ticks::begin(world, nap), Random::new(2));
            let fails = |_: &u32| {
                step();
                moment(&mut random);
                let inside = ticks.handle.enter();
                let hold = test_util::hold();
                let (before, woken) = (Instant::now(), ticks.woken());
                moment(&mut random);
                // Each task that was woken may run, and goes to sleep again.
                let is_still = Instant::now() == before && ticks.woken() <= woken + 3;
                drop(inside);
                drop(hold);
                ticks.go_on();
                !is_still
            };
            let failed = (0..TRIES).filter(fails).count();
            ticks.end();
            failed
        });
        assert_eq!(failed, 0, "of {TRIES} tries");
    }

    /// Takes hold of a runtime's clock again and again on a plain thread, until this is dropped.
    fn holds_again_and_again(runtime: &Runtime) -> mpsc::Sender<()> {
        let (ends, ended) = mpsc::channel();
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            let _inside = handle.enter();
            while ended.recv_timeout(ms(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                drop(test_util::hold());
            }
        });
        ends
    }

    #[test]
    fn holds_beside_others_that_look() {
        must_end(|| {
            let runtime = current_thread();
            let _holds = holds_again_and_again(&runtime);
            runtime.block_on(async {
                for _ in rounds(100) {
                    settle().await;
                    step();
                }
            });
        });
        must_end(|| {
            let runtime = paused();
            let _holds = holds_again_and_again(&runtime);
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                for _ in rounds(100) {
                    timer.sleep(HOUR).await;
                    step();
                }
            });
        });
    }

    #[test]
    fn a_hold_of_a_current_thread_runtime_from_outside() {
        for world in WORLDS {
            a_hold_from_outside(world, ms(1));
        }
    }

    #[test]
    fn a_hold_of_a_current_thread_runtime_that_takes_small_steps_from_outside() {
        for world in WORLDS {
            a_hold_from_outside(world, 7 * MICRO);
        }
    }

    #[test]
    fn a_hold_of_a_multi_thread_runtime_from_outside() {
        for make in [|| multi_thread(1), || multi_thread(4)] {
            a_hold_from_outside((make, pause), ms(1));
        }
    }

    #[test]
    fn a_hold_of_a_clock_that_follows_a_runtime() {
        for make in [current_thread, || multi_thread(2)] {
            let failed = must_end(move || {
                let (runtime, clock, mut random) = (make(), ManualClock::new(), Random::new(3));
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let (moves, (stop, stopped)) = (clock.clone(), oneshot::channel::<()>());
                let thread = thread::spawn(move || {
                    runtime.block_on(async {
                        moves.auto_advance();
                        tokio::spawn(async move {
                            loop {
                                timer.sleep(ms(1)).await;
                            }
                        });
                        let _ = stopped.await;
                    });
                });
                let failed = (0..TRIES).filter(|_| {
                    moment(&mut random);
                    let hold = clock.hold();
                    let before = clock.now();
                    moment(&mut random);
                    let is_still = clock.now() == before;
                    drop(hold);
                    let before = clock.now();
                    while clock.now() == before {
                        thread::yield_now();
                    }
                    step();
                    !is_still
                });
                let failed = failed.count();
                drop(stop);
                thread.join().unwrap();
                failed
            });
            assert_eq!(failed, 0, "of {TRIES} tries");
        }
    }
}

/// Threads of this process that compute without end.
struct Busy {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn begin(threads: usize) -> Busy {
        let over = Arc::<AtomicBool>::default();
        let computes = |over: Arc<AtomicBool>| move || while !over.load(SeqCst) {};
        Busy { threads: (0..threads).map(|_| thread::spawn(computes(over.clone()))).collect(), over }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// What takes longer on a machine that has other things to do, but ends.
mod under_load {
    use super::*;

    const DEADLINES: u32 = 20;
    /// A millisecond, and fractions of some.
    const NAPS: [Duration; 3] =
        [Duration::from_millis(1), Duration::from_nanos(1_234_567), Duration::from_nanos(321_987)];
    /// A thousand times what it takes.
    const TOO_LONG: Duration = Duration::from_secs(250);

    /// Naps one after the other, while the clock moves by itself.
    async fn moves_by_itself(nap: Duration) {
        let start = Instant::now();
        for n in 1..=DEADLINES {
            sleep(nap).await;
            assert_eq!(start.elapsed(), n * nap);
            step();
        }
    }

    async fn settles(nap: Duration) {
        let start = Instant::now();
        let naps = tokio::spawn(sleep(nap));
        for _ in 0..DEADLINES {
            settle().await;
            step();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        naps.abort();
    }

    async fn is_moved(nap: Duration) {
        let start = Instant::now();
        let naps = tokio::spawn(moves_by_itself(nap));
        advance_and_settle(DEADLINES * nap).await;
        assert_eq!(start.elapsed(), DEADLINES * nap);
        naps.await.unwrap();
    }

    /// Runs `test` with each number of busy threads, in the future of `block_on` and in a task.
    fn ends_everywhere<F: Future<Output = ()> + Send + 'static>(name: &str, test: fn(Duration) -> F) {
        for busy in [0, 2, 4, 8] {
            let _busy = Busy::begin(busy);
            for nap in NAPS {
                let took = |run: fn(fn(Duration) -> F, Duration)| {
                    must_end(move || {
                        let start = std::time::Instant::now();
                        run(test, nap);
                        start.elapsed()
                    })
                };
                let all = [
                    took(|test, nap| paused().block_on(test(nap))),
                    took(|test, nap| {
                        multi_thread(2).block_on(async {
                            pause();
                            // On some systems the clock does not see the future of `block_on`.
                            tokio::spawn(test(nap)).await.unwrap();
                        });
                    }),
                    took(|test, nap| bubble(|| test(nap))),
                ];
                println!("{name}, {nap:?} each, {busy} busy threads: {all:?}");
                assert!(all.iter().all(|&took| took < TOO_LONG), "{all:?}");
            }
        }
    }

    #[test]
    fn a_clock_that_moves_by_itself() {
        ends_everywhere("by itself", moves_by_itself);
    }

    /// A bug that this crate had: `settle` and paused clocks starved on a busy machine: this crate's own alarms woke
    /// the runtime in real time, and each wake-up ended the look.
    #[test]
    fn settle_returns() {
        ends_everywhere("settle", settles);
    }

    #[test]
    fn advance_and_settle_returns() {
        ends_everywhere("advance_and_settle", is_moved);
    }
}

/// Steps of less than a millisecond on a paused clock of tokio's.
mod small_steps {
    use super::*;

    fn on_tokios_clock<F: Future<Output = ()> + 'static>(test: fn() -> F) {
        in_worlds(&WORLDS, test);
        must_end(move || bubble(test));
    }

    #[test]
    fn both_crates_show_them_to_the_nanosecond() {
        on_tokios_clock(|| async {
            let (start, tokios) = (Instant::now(), tokio::time::Instant::now());
            let (mut random, mut slept) = (Random::new(1), Duration::ZERO);
            for _ in rounds(300) {
                let nap = Duration::from_nanos(random.up_to_bits(22));
                sleep(nap).await;
                slept += nap;
                assert_eq!((start.elapsed(), tokios.elapsed()), (slept, slept));
            }
        });
    }

    /// One task for each of tokio's timers and each of ours. Tokio's are less than three milliseconds late, ours up to `late`.
    async fn both_kinds(naps: u32, late: Duration) {
        let tasks = (0..12).map(|seed| async move {
            let mut random = Random::new(seed);
            for _ in 0..naps {
                step();
                let nap = random.pick(&[MICRO, ms(1), ms(3), HOUR]);
                let end = Instant::now() + random.duration(nap);
                if seed % 2 == 0 {
                    sleep_until(end).await;
                    let now = Instant::now();
                    assert!((end..=end + late).contains(&now), "{:?} late", now - end);
                    assert_eq!(tokio::time::Instant::now(), now.into());
                } else {
                    tokio::time::sleep_until(end.into()).await;
                    let now = Instant::now();
                    assert!((end..=end + ms(3)).contains(&now), "{:?} late", now - end);
                }
            }
        });
        for task in tasks.map(tokio::spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }

    #[test]
    fn beside_timers_of_tokios() {
        on_tokios_clock(|| both_kinds(50, Duration::ZERO));
    }

    #[test]
    fn beside_timers_of_tokios_on_a_busy_machine() {
        let _busy = Busy::begin(6);
        on_tokios_clock(|| both_kinds(2, ms(1)));
    }

    /// The next deadline is there as soon as the last has come, or is set back or forward.
    #[test]
    fn deadlines_that_move() {
        on_tokios_clock(|| async {
            let mut random = Random::new(5);
            for _ in rounds(300) {
                let (start, first, second) = (Instant::now(), random.duration(ms(2)), random.duration(ms(2)));
                let mut nap = sleep(first);
                let mover = tokio::spawn(async move {
                    sleep(first / 2).await;
                    nap.reset_at(start + first / 2 + second);
                    nap.await;
                });
                mover.await.unwrap();
                assert_eq!(start.elapsed(), first / 2 + second);
            }
        });
    }
}
