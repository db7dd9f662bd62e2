//! A real Redis server and real worker processes, to be killed at any moment.

use std::collections::HashMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use hairspring::sleep;
use shared_deadlines::Queue;

pub(crate) const QUEUE: &str = "jobs";
/// After this, a test takes it that nothing more will happen.
const HUNG: Duration = Duration::from_secs(120);

/// A server with a folder of its own, on a free port. Each write is in the file before it is answered.
pub(crate) struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts `redis-server`, or the program that the variable `REDIS_SERVER` names.
    pub(crate) fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shared_deadlines-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let process = serve(port, &folder);
        Server { process, port, folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn queue(&self, lease: Duration) -> Queue {
        Queue::open(&self.url(), QUEUE, lease).unwrap()
    }

    /// Kills it with `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.process = serve(self.port, &self.folder);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if !thread::panicking() {
            fs::remove_dir_all(&self.folder).unwrap();
        }
    }
}

fn serve(port: u16, folder: &PathBuf) -> Child {
    let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let mut command = Command::new(&program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    let log = File::options().create(true).append(true).open(folder.join("server.log")).unwrap();
    let started = command.stdout(log).spawn();
    let mut process = started.unwrap_or_else(|error| panic!("{program}: {error}; `run` says how to get a server"));
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(process.try_wait().unwrap().is_none(), "{program} has ended, see {}", folder.display());
        thread::sleep(Duration::from_millis(10));
    }
    process
}

/// Worker processes, and the files with what they print.
pub(crate) struct Workers {
    url: String,
    folder: PathBuf,
    lease: Duration,
    work: Duration,
    running: Vec<Child>,
    started: usize,
}

/// A job that was handled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handled {
    pub(crate) token: u64,
    /// Both in microseconds since 1970.
    pub(crate) deadline: u64,
    pub(crate) begun: u64,
}

impl Workers {
    pub(crate) fn start(server: &Server, count: usize, lease: Duration, work: Duration) -> Workers {
        let folder = server.folder.clone();
        let mut workers = Workers { url: server.url(), folder, lease, work, running: Vec::new(), started: 0 };
        for _ in 0..count {
            workers.add();
        }
        workers
    }

    pub(crate) fn add(&mut self) {
        let file = |kind: &str| File::create(self.folder.join(format!("worker-{}.{kind}", self.started))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_shared_deadlines"));
        command.args([&self.url, QUEUE]).args([self.lease, self.work].map(|time| time.as_millis().to_string()));
        self.running.push(command.stdout(file("done")).stderr(Stdio::from(file("errors"))).spawn().unwrap());
        self.started += 1;
    }

    /// Sends a signal, such as `-TERM`, to the one that was started first of those that run.
    pub(crate) fn signal(&mut self, signal: &str) {
        // The shell has a `kill` of its own. The program of that name may be missing.
        let kill = format!("kill {signal} {}", self.running[0].id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits until the one that was started first has ended, and says if it has succeeded.
    pub(crate) fn wait_for_first(&mut self) -> bool {
        self.running.remove(0).wait().unwrap().success()
    }

    /// All that was handled, by name.
    pub(crate) fn handled(&self) -> HashMap<String, Vec<Handled>> {
        let mut handled: HashMap<_, Vec<_>> = HashMap::new();
        for worker in 0..self.started {
            for line in self.lines(worker) {
                let (name, numbers) = line.split_once(' ').unwrap();
                let mut numbers = numbers.split(' ').map(|number| number.parse().unwrap());
                let mut next = || numbers.next().unwrap();
                let numbers = Handled { token: next(), deadline: next(), begun: next() };
                handled.entry(name.to_owned()).or_default().push(numbers);
            }
        }
        handled
    }

    /// What a worker has printed, without a last line that is cut off.
    pub(crate) fn lines(&self, worker: usize) -> Vec<String> {
        let done = self.read(worker, "done");
        done.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }

    /// Whether a worker has said that it lost its lease.
    pub(crate) fn has_lost_its_lease(&self, worker: usize) -> bool {
        self.read(worker, "errors").contains("the lease was lost")
    }

    fn read(&self, worker: usize, kind: &str) -> String {
        fs::read_to_string(self.folder.join(format!("worker-{worker}.{kind}"))).unwrap()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.running {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
    }
}

/// Waits until it is so.
pub(crate) async fn wait(mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < HUNG, "nothing more happens");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Adds a job, and repeats that until the server has answered.
pub(crate) async fn schedule(queue: &Queue, job: usize, delay: Duration) {
    while queue.schedule(&format!("job-{job}"), "payload", delay).await.is_err() {}
}

/// Waits until each job was acknowledged.
pub(crate) async fn all_acknowledged(queue: &Queue) {
    wait(async || queue.unacknowledged().await == Ok(0)).await;
}
