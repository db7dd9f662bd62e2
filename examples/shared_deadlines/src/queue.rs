//! [`Queue`]: the jobs in Redis, and the scripts that change them. Redis runs each script alone and writes it to its
//! log as a whole, so a crash leaves no half of one.
//!
//! | key | kind | what |
//! |---|---|---|
//! | `jobs` | hash | each job that is not acknowledged, with its payload |
//! | `due` | sorted set | the jobs that no session holds, by deadline |
//! | `sessions` | sorted set | the sessions of workers, by the end of their leases |
//! | `held:SESSION` | sorted set | the jobs that a session holds, by deadline |
//! | `batch:SESSION` | list | what the session's last look claimed |
//! | `tokens` | number | the last session or token |
//! | `bell` | stream | the last call of workers that wait for their next look |
//! | `done:JOB` | string | the job was acknowledged a while ago |
//!
//! Each has the name of the queue in braces before it, so that a cluster keeps them all on one server.

use std::fmt;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult, Script, ScriptInvocation, cmd};

/// How long Redis may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the name of a job is remembered after it was acknowledged, in seconds.
const REMEMBERED: u64 = 3_600;

/// Delayed jobs, shared by all processes that open the queue of this name.
#[derive(Clone)]
pub struct Queue {
    redis: ConnectionManager,
    /// A connection of its own, because a wait blocks it.
    bell: ConnectionManager,
    /// The queue's name in braces.
    name: String,
    lease: Duration,
}

/// What a [look](Queue::look) has claimed.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    /// Greater than that of each batch before.
    pub token: u64,
    pub jobs: Vec<Claimed>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Claimed {
    pub name: String,
    pub payload: String,
    /// In microseconds since 1970, by the server's clock.
    pub deadline: u64,
    /// How long that was ahead when the server answered.
    pub to_go: Duration,
}

/// A call of the bell, and what it was for.
type Call = (String, Vec<String>);

/// A job as `look.lua` returns it. What it has to go is negative if it is overdue.
type Row = (String, String, u64, i64);

impl From<Row> for Claimed {
    fn from((name, payload, deadline, to_go): Row) -> Self {
        Claimed { name, payload, deadline, to_go: Duration::from_micros(u64::try_from(to_go).unwrap_or(0)) }
    }
}

impl Queue {
    /// The queue `name` on the server at `url`. All processes must open it with the same `lease`: how long a worker
    /// that Redis does not hear from keeps its jobs. Connects when it is first used, and again after each error.
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

    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Adds a job that is due in `delay`. Returns `false` if there is a job of this name, or was one in the last hour. So
    /// a caller without an answer can repeat the call.
    ///
    /// # Errors
    /// If Redis does not answer. The job may have been added.
    pub async fn schedule(&self, job: &str, payload: &str, delay: Duration) -> RedisResult<bool> {
        let script = script(include_str!("lua/schedule.lua"));
        let mut call = self.call(&script, ["due", "jobs", "bell", &format!("done:{job}")]);
        call.arg(job).arg(micros(delay)).arg(payload).arg(micros(self.lease)); // later ones are found by regular looks
        self.run(&call).await
    }

    /// The number of jobs that have not been acknowledged.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn unacknowledged(&self) -> RedisResult<usize> {
        cmd("HLEN").arg(self.key("jobs")).query_async(&mut self.redis.clone()).await
    }

    /// The number of jobs that no worker has claimed.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn unclaimed(&self) -> RedisResult<usize> {
        cmd("ZCARD").arg(self.key("due")).query_async(&mut self.redis.clone()).await
    }

    /// Opens a session, which ends unless a [`look`](Queue::look) renews its lease in time.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn open_session(&self) -> RedisResult<u64> {
        let script = script(include_str!("lua/open.lua"));
        self.run(self.call(&script, ["sessions", "tokens"]).arg(micros(self.lease))).await
    }

    /// Renews the lease of a session and claims up to `room` jobs that are due within `window`. Returns `None` if the
    /// session is over. The `number` is one greater each time, from 1 on.
    ///
    /// # Errors
    /// If Redis does not answer. It may have claimed jobs all the same: repeat it with the same number, which gives them.
    pub async fn look(&self, session: u64, number: u64, window: Duration, room: usize) -> RedisResult<Option<Batch>> {
        let script = script(include_str!("lua/look.lua"));
        let [held, batch] = ["held", "batch"].map(|kind| format!("{kind}:{session}"));
        let mut call = self.call(&script, ["due", "jobs", "sessions", "tokens", &held, &batch]);
        call.arg(&self.name).arg(session).arg(number).arg(micros(self.lease)).arg(micros(window)).arg(room);
        let found: Option<(u64, Vec<Row>)> = self.run(&call).await?;
        Ok(found.map(|(token, rows)| Batch { token, jobs: rows.into_iter().map(Claimed::from).collect() }))
    }

    /// Removes a job for good. Returns `false` if the session does not hold it, as after an acknowledgement whose answer
    /// was lost.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn acknowledge(&self, session: u64, job: &str) -> RedisResult<bool> {
        let script = script(include_str!("lua/acknowledge.lua"));
        let mut call = self.call(&script, [&*format!("held:{session}"), "jobs", &format!("done:{job}")]);
        self.run(call.arg(job).arg(REMEMBERED)).await
    }

    /// Ends a session and calls the other workers, which can claim its jobs at once.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn close_session(&self, session: u64) -> RedisResult<()> {
        let script = script(include_str!("lua/close.lua"));
        self.run(self.call(&script, ["sessions", "bell"]).arg(&self.name).arg(session)).await
    }

    /// Waits until workers have to look at once, and returns the call. Pass it the last one, or 0 at first: none is missed.
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

    fn call<'a, const KEYS: usize>(&self, script: &'a Script, keys: [&str; KEYS]) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(self.key(key));
        }
        call
    }

    async fn run<T: redis::FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> RedisResult<T> {
        call.invoke_async(&mut self.redis.clone()).await
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).field("lease", &self.lease).finish_non_exhaustive()
    }
}

fn script(code: &str) -> Script {
    Script::new(&[include_str!("lua/common.lua"), code].concat())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
