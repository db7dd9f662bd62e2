//! [`Queue`]: the jobs in Redis, and the scripts that change them. Redis runs each script alone and logs it as a whole,
//! so a crash leaves nothing half done.
//!
//! | key | kind | content |
//! |---|---|---|
//! | `jobs` | hash | each job that is not acknowledged, with its payload |
//! | `due` | sorted set | the jobs that no session holds, by deadline |
//! | `sessions` | sorted set | the sessions of workers, by the end of their leases |
//! | `held:SESSION` | sorted set | the jobs that a session holds, by deadline |
//! | `batch:SESSION` | list | the jobs of the session's last claim |
//! | `tokens` | number | the last session or token |
//! | `bell` | stream | the last request that all workers claim now |
//! | `done:JOB` | string | the job was acknowledged within the last hour |
//!
//! Each key begins with the queue's name in braces, to keep them on one server of a cluster.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, FromRedisValue, RedisResult, Script, cmd};

/// How long Redis may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the name of an acknowledged job is remembered, in seconds.
const REMEMBERED: &str = "3600";

/// Delayed jobs, shared by all processes that open the queue of this name.
#[derive(Clone)]
pub struct Queue {
    redis: ConnectionManager,
    /// A second connection, because waiting for the bell blocks it.
    bell: ConnectionManager,
    /// The queue's name in braces.
    name: String,
    pub(crate) lease: Duration,
}

/// A job that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    pub payload: String,
    /// In microseconds since 1970, by the clock of the Redis server.
    pub deadline: u64,
    /// Grows with each claim of this job. A database that stores it with the job's result can refuse smaller ones: they
    /// are from a worker that has lost the job and does not know it yet.
    pub token: u64,
}

/// A call of the bell, and what it was for.
type Call = (String, Vec<String>);

impl Queue {
    /// The queue `name` on the server at `url`. All processes must use the same `lease`: how long a worker that Redis
    /// does not hear from keeps its jobs. Connects on first use, and again after each error.
    ///
    /// # Errors
    /// If `url` is not that of a Redis server, like `redis://127.0.0.1:6379`. Outside a tokio runtime it panics.
    pub fn open(url: &str, name: &str, lease: Duration) -> RedisResult<Queue> {
        let client = Client::open(url)?;
        let connect = |answer| {
            let config = ConnectionManagerConfig::new().set_response_timeout(Some(answer));
            ConnectionManager::new_lazy_with_config(client.clone(), config)
        };
        Ok(Queue { redis: connect(ANSWER)?, bell: connect(2 * ANSWER)?, name: format!("{{{name}}}"), lease })
    }

    /// Adds a job that is due in `delay`. Returns `false` if a job of this name exists, or was acknowledged within the
    /// last hour, so a caller that gets no answer can repeat the call.
    ///
    /// # Errors
    /// If Redis does not answer. The job may have been added.
    pub async fn schedule(&self, job: &str, payload: &str, delay: Duration) -> RedisResult<bool> {
        let keys = ["due", "jobs", "bell", &format!("done:{job}")];
        self.run(include_str!("lua/schedule.lua"), &keys, &[job, &micros(delay), payload, &micros(self.lease)]).await
    }

    /// The number of jobs that have not been acknowledged.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn unacknowledged(&self) -> RedisResult<usize> {
        cmd("HLEN").arg(self.key("jobs")).query_async(&mut self.redis.clone()).await
    }

    /// Opens a session. It ends unless a [`claim`](Queue::claim) renews its lease in time.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn open_session(&self) -> RedisResult<u64> {
        self.run(include_str!("lua/open.lua"), &["sessions", "tokens"], &[&micros(self.lease)]).await
    }

    /// Renews the lease of a session and claims up to `room` jobs that are due within `window`, each with the time that
    /// remains. Returns `None` if the session has ended. The `number` starts at 1 and grows by one with each claim.
    ///
    /// # Errors
    /// If Redis does not answer. It may have claimed jobs: repeat the claim with the same number to get them.
    pub async fn claim(
        &self,
        session: u64,
        number: u64,
        window: Duration,
        room: usize,
    ) -> RedisResult<Option<Vec<(Job, Duration)>>> {
        let [held, batch] = ["held", "batch"].map(|kind| format!("{kind}:{session}"));
        let keys = ["due", "jobs", "sessions", "tokens", &held, &batch];
        let [session, number, room] = [session, number, room as u64].map(|number| number.to_string());
        let [lease, window] = [self.lease, window].map(micros);
        let arguments = [&self.name, &*session, &number, &lease, &window, &room];
        let found: Option<Vec<_>> = self.run(include_str!("lua/claim.lua"), &keys, &arguments).await?;
        let job = |(name, payload, deadline, token, remaining)| {
            (Job { name, payload, deadline, token }, Duration::from_micros(remaining))
        };
        Ok(found.map(|jobs| jobs.into_iter().map(job).collect()))
    }

    /// Removes a job. Returns `false` if the session does not hold it, for example because an earlier acknowledgement
    /// got no answer.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn acknowledge(&self, session: u64, job: &str) -> RedisResult<bool> {
        let keys = [&*format!("held:{session}"), "jobs", &format!("done:{job}")];
        self.run(include_str!("lua/acknowledge.lua"), &keys, &[job, REMEMBERED]).await
    }

    /// Ends a session and rings the bell to have other workers claim its jobs.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn close_session(&self, session: u64) -> RedisResult<()> {
        self.run(include_str!("lua/close.lua"), &["sessions", "bell"], &[&self.name, &session.to_string()]).await
    }

    /// Waits for the bell, and returns its call. Pass the last call, or 0 at first, to miss none.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn bell(&self, last: &str) -> RedisResult<String> {
        let mut wait = cmd("XREAD");
        wait.arg("BLOCK").arg(ANSWER.as_millis().to_string()).arg("STREAMS").arg(self.key("bell")).arg(last);
        loop {
            let streams: Option<Vec<(String, Vec<Call>)>> = wait.query_async(&mut self.bell.clone()).await?;
            if let Some((call, _)) = streams.and_then(|mut streams| streams.pop()?.1.pop()) {
                return Ok(call);
            }
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}:{key}", self.name)
    }

    async fn run<T: FromRedisValue>(&self, script: &str, keys: &[&str], arguments: &[&str]) -> RedisResult<T> {
        let script = Script::new(&[include_str!("lua/common.lua"), script].concat());
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(self.key(key));
        }
        for argument in arguments {
            call.arg(argument);
        }
        call.invoke_async(&mut self.redis.clone()).await
    }
}

fn micros(duration: Duration) -> String {
    duration.as_micros().to_string()
}
