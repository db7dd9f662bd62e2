//! A real Redis server that tests can kill.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, process, thread};

use hairspring::sleep;
use shared_deadlines::Queue;

/// A server with its own folder and port. It syncs each write before it answers.
pub(crate) struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts `redis-server`, or the program that the variable `REDIS_SERVER` names.
    pub(crate) fn start() -> Server {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let folder = env::temp_dir().join(format!("shared_deadlines-{}-{port}", process::id()));
        fs::create_dir(&folder).unwrap();
        Server { process: serve(port, &folder), port, folder }
    }

    pub(crate) fn queue(&self, lease: Duration) -> Queue {
        Queue::open(&format!("redis://127.0.0.1:{}", self.port), "jobs", lease).unwrap()
    }

    /// Kills it with `SIGKILL`, and starts it again after a pause.
    pub(crate) async fn crash(&mut self) {
        self.kill();
        sleep(Duration::from_millis(200)).await;
        self.process = serve(self.port, &self.folder);
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
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

fn serve(port: u16, folder: &Path) -> Child {
    let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let mut command = Command::new(&program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--logfile", "server.log"]);
    let mut process = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; see `run`"));
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(process.try_wait().unwrap().is_none(), "{program} has ended, see {}", folder.display());
        thread::sleep(Duration::from_millis(10));
    }
    process
}
