//! Cost of work: time, and what the process read and wrote meanwhile.

use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Instant;

use clew_index::StorageRequest;
use serde::Serialize;

/// Cost of some work.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WorkCost {
    /// Seconds that it took.
    pub seconds: f64,
    /// How long it held the writer of the shard, if it needs the writer at all.
    #[serde(flatten)]
    pub held: Option<Held>,
    /// Calls and bytes, if the system counts them.
    #[serde(flatten)]
    pub calls: Option<Calls>,
    /// Requests to the bucket that the shard lies in.
    pub requests: Requests,
}

/// How long work held the writer of a shard. Nothing else is written meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// Seconds in all.
    pub writer_seconds: f64,
    /// Seconds at a time, at most.
    pub writer_seconds_at_once: f64,
}

impl Held {
    /// Adds a turn of the writer.
    pub fn add(&mut self, seconds: f64) {
        self.writer_seconds += seconds;
        self.writer_seconds_at_once = self.writer_seconds_at_once.max(seconds);
    }
}

/// Calls with which a process read and wrote, and their bytes, whether a disk or the page cache
/// served them. Fractions come from averages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    pub reads: f64,
    pub bytes_read: f64,
    pub writes: f64,
    pub bytes_written: f64,
}

/// Requests to a bucket, by kind. Fractions come from averages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Requests {
    pub get: f64,
    pub head: f64,
    pub list: f64,
    pub put: f64,
    pub delete: f64,
}

/// State of all counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Counters {
    calls: Option<Calls>,
    requests: Requests,
    at: Instant,
}

/// Measures costs.
#[derive(Debug)]
pub struct Meter {
    /// What it costs to read the counters once.
    counting: Option<Calls>,
}

impl Meter {
    pub fn new() -> Self {
        let counting = Calls::so_far().zip(Calls::so_far()).map(|(before, after)| after - before);
        Self { counting }
    }

    /// Does some work and measures it.
    pub async fn measure<T>(&self, work: impl Future<Output = T>) -> (T, WorkCost) {
        let before = Counters::read();
        let done = work.await;
        (done, self.since(before))
    }

    /// Does some work that holds the writer all the time, and measures it.
    pub async fn measure_writer<T>(&self, work: impl Future<Output = T>) -> (T, WorkCost) {
        let (done, mut cost) = self.measure(work).await;
        cost.held.get_or_insert_default().add(cost.seconds);
        (done, cost)
    }

    /// Does some work several times and returns the average.
    pub fn average(&self, times: usize, mut work: impl FnMut()) -> WorkCost {
        let before = Counters::read();
        for _ in 0..times {
            work();
        }
        self.since(before) * (1.0 / times as f64)
    }

    fn since(&self, before: Counters) -> WorkCost {
        let seconds = before.at.elapsed().as_secs_f64();
        let calls = before.calls.zip(Calls::so_far()).zip(self.counting);
        WorkCost {
            seconds,
            held: None,
            calls: calls.map(|((before, after), counting)| after - before - counting),
            requests: Requests::so_far().with(before.requests, |after, before| after - before),
        }
    }
}

impl WorkCost {
    /// Returns the time, and how long the writer was held in all and at a time, for people.
    pub fn times(&self) -> [String; 3] {
        let held = |of: fn(Held) -> f64| self.held.map(|held| time(of(held))).unwrap_or_default();
        let (all, at_once) = (held(|it| it.writer_seconds), held(|it| it.writer_seconds_at_once));
        [time(self.seconds), all, at_once]
    }

    /// Returns the number of requests to a bucket, for people.
    pub fn requests(&self) -> String {
        format!("{:.1}", self.requests.all())
    }

    /// Returns reads, bytes read, writes and bytes written for people; empty if the system does not
    /// count them.
    pub fn shown(&self) -> [String; 4] {
        let Some(calls) = self.calls else { return [(); 4].map(|()| String::new()) };
        let number = |number: f64| format!("{number:.0}");
        let (read, written) = (bytes(calls.bytes_read), bytes(calls.bytes_written));
        [number(calls.reads), read, number(calls.writes), written]
    }
}

/// Returns a time for people.
pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Returns a number of bytes for people.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        bytes => format!("{:.1} MiB", bytes / (1024.0 * 1024.0)),
    }
}

/// Returns the median time with the averages of calls and bytes, and the time that 99 % do not
/// exceed.
pub fn half_and_most(costs: Vec<WorkCost>) -> (WorkCost, WorkCost) {
    let mut times: Vec<f64> = costs.iter().map(|cost| cost.seconds).collect();
    times.sort_by(f64::total_cmp);
    let of = |hundredths: usize| times.get(times.len() * hundredths / 100).copied().unwrap_or(0.0);
    let share = 1.0 / costs.len().max(1) as f64;
    let sum = costs.into_iter().reduce(Add::add).unwrap_or_default();
    let most = WorkCost { seconds: of(99), ..WorkCost::default() };
    (WorkCost { seconds: of(50), ..sum * share }, most)
}

impl Counters {
    fn read() -> Self {
        Self { calls: Calls::so_far(), requests: Requests::so_far(), at: Instant::now() }
    }
}

impl Requests {
    fn so_far() -> Self {
        let sent = |kind: StorageRequest| kind.sent() as f64;
        Self {
            get: sent(StorageRequest::Get),
            head: sent(StorageRequest::Head),
            list: sent(StorageRequest::List),
            put: sent(StorageRequest::Put),
            delete: sent(StorageRequest::Delete),
        }
    }

    /// Returns how many there are of all kinds together.
    pub fn all(&self) -> f64 {
        self.get + self.head + self.list + self.put + self.delete
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            get: join(self.get, other.get),
            head: join(self.head, other.head),
            list: join(self.list, other.list),
            put: join(self.put, other.put),
            delete: join(self.delete, other.delete),
        }
    }
}

impl Calls {
    /// Returns what this process did so far; `None` where the system does not count it.
    fn so_far() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/self/io").ok()?)
    }

    fn read(counters: &str) -> Option<Self> {
        let counter = |name: &str| -> Option<f64> {
            let values = counters.lines().filter_map(|line| line.split_once(": "));
            values.into_iter().find(|(known, _)| *known == name)?.1.trim().parse().ok()
        };
        Some(Self {
            reads: counter("syscr")?,
            bytes_read: counter("rchar")?,
            writes: counter("syscw")?,
            bytes_written: counter("wchar")?,
        })
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            reads: join(self.reads, other.reads),
            bytes_read: join(self.bytes_read, other.bytes_read),
            writes: join(self.writes, other.writes),
            bytes_written: join(self.bytes_written, other.bytes_written),
        }
    }
}

impl Sub for Calls {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        // The length of the counters' text varies, so the cost of reading it may be overestimated.
        self.with(other, |a, b| (a - b).max(0.0))
    }
}

impl Add for WorkCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let calls = match (self.calls, other.calls) {
            (Some(a), Some(b)) => Some(a.with(b, Add::add)),
            (one, other) => one.or(other),
        };
        let held = match (self.held, other.held) {
            (Some(a), Some(b)) => Some(Held {
                writer_seconds: a.writer_seconds + b.writer_seconds,
                writer_seconds_at_once: a.writer_seconds_at_once.max(b.writer_seconds_at_once),
            }),
            (one, other) => one.or(other),
        };
        let requests = self.requests.with(other.requests, Add::add);
        Self { seconds: self.seconds + other.seconds, held, calls, requests }
    }
}

impl AddAssign for WorkCost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<f64> for WorkCost {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        let calls = self.calls.map(|calls| calls.with(calls, |a, _| a * factor));
        let held =
            self.held.map(|held| Held { writer_seconds: held.writer_seconds * factor, ..held });
        let requests = self.requests.with(self.requests, |a, _| a * factor);
        Self { seconds: self.seconds * factor, held, calls, requests }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let counters = "rchar: 30\nwchar: 40\nsyscr: 3\nsyscw: 4\nread_bytes: 0\n";
        let calls = Calls { reads: 3.0, bytes_read: 30.0, writes: 4.0, bytes_written: 40.0 };
        assert_eq!(Calls::read(counters), Some(calls));
        assert_eq!(Calls::read("rchar: 30\n"), None);
    }

    #[test]
    fn the_median_and_the_99th_hundredth_are_of_times_and_the_average_of_calls() {
        let cost = |seconds, reads| WorkCost {
            seconds,
            held: None,
            calls: Some(Calls { reads, ..Calls::default() }),
            requests: Requests { get: reads, ..Requests::default() },
        };
        let (half, most) = half_and_most(vec![cost(9.0, 1.0), cost(1.0, 2.0), cost(2.0, 6.0)]);
        assert_eq!((half.seconds, most.seconds), (2.0, 9.0));
        assert!((half.calls.unwrap().reads - 3.0).abs() < 1e-9);
        assert!((half.requests.all() - 3.0).abs() < 1e-9);
        let hundreds = (0..200).rev().map(|seconds| cost(f64::from(seconds), 1.0)).collect();
        let (half, most) = half_and_most(hundreds);
        assert_eq!((half.seconds, most.seconds), (100.0, 198.0));
        assert_eq!(half_and_most(Vec::new()).0.seconds, 0.0);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_is_read_is_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 100_000]).unwrap();
        let read = async { std::fs::read(file.path()).unwrap().len() };
        let (length, cost) = Meter::new().measure(read).await;
        let calls = cost.calls.unwrap();
        // Other tests of this process may read at the same time.
        assert!(length == 100_000 && calls.bytes_read >= 100_000.0 && calls.reads >= 1.0);
    }
}
