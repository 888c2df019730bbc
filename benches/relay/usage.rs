//! What processes use, by /proc.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Clock ticks a second in /proc/PID/stat: 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// CPU seconds of a process so far; `None` once it is gone.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS)
}

/// Pids of running processes whose command line contains `words`.
pub(crate) fn pids_of(words: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
        })
        .collect()
}

pub(crate) fn congestion_control() -> String {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// CPU seconds that processes use while this runs, also of those that end meanwhile.
pub(crate) struct Meter {
    stop: Arc<AtomicBool>,
    used: Arc<Mutex<HashMap<u32, (f64, f64)>>>,
    thread: thread::JoinHandle<()>,
}

impl Meter {
    /// Watches the processes whose command lines contain `words`, those that begin later too.
    pub(crate) fn start(words: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let used: Arc<Mutex<HashMap<u32, (f64, f64)>>> = Arc::default();
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&used));
        let before: HashMap<u32, f64> =
            pids_of(&words).into_iter().filter_map(|pid| Some((pid, cpu_seconds(pid)?))).collect();
        let thread = thread::spawn(move || {
            let mut pids = Vec::new();
            for turn in 0u32.. {
                let last = stopped.load(Ordering::Relaxed);
                if turn.is_multiple_of(5) {
                    pids = pids_of(&words);
                }
                for pid in &pids {
                    if let Some(now) = cpu_seconds(*pid) {
                        let begun = before.get(pid).copied().unwrap_or(0.0);
                        seen.lock().unwrap().insert(*pid, (begun, now));
                    }
                }
                if last {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self { stop, used, thread }
    }

    /// What they used, together.
    pub(crate) fn finish(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let used = self.used.lock().unwrap();
        used.values().map(|(begun, now)| now - begun).sum()
    }
}
