//! Clocks and rounds: measures a subject and its floor so that noise affects both.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};

/// The times of one operation, in seconds per round.
#[derive(Default)]
pub(crate) struct Sample {
    pub cpu: Vec<f64>,
    pub wall: Vec<f64>,
}

impl Sample {
    pub(crate) fn cpu_median(&self) -> f64 {
        median(&self.cpu)
    }

    pub(crate) fn cpu_least(&self) -> f64 {
        quantile(&self.cpu, 0.0)
    }

    /// Returns the median of the ratios of each round; both sides of a round have the same noise.
    pub(crate) fn cpu_over(&self, floor: &Sample) -> f64 {
        median(&self.cpu.iter().zip(&floor.cpu).map(|(a, b)| a / b).collect::<Vec<_>>())
    }
}

/// Runs every operation once per round, in rotating order.
pub(crate) fn interleaved<const N: usize>(rounds: usize, operations: [&mut dyn FnMut(); N]) -> [Sample; N] {
    let mut samples = std::array::from_fn(|_| Sample::default());
    for round in 0..rounds {
        for turn in 0..N {
            let at = (round + turn) % N;
            let (cpu, wall) = (cpu_seconds(), Instant::now());
            operations[at]();
            samples[at].wall.push(wall.elapsed().as_secs_f64());
            samples[at].cpu.push(cpu_seconds() - cpu);
        }
    }
    samples
}

/// Returns the CPU time of this process and of its children that have ended.
pub(crate) fn cpu_seconds() -> f64 {
    let of = |who| {
        getrusage(who).map_or(0.0, |usage: Usage| seconds(usage.user_time()) + seconds(usage.system_time()))
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the memory of the largest child, in MB.
pub(crate) fn largest_child_mb() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| usage.max_rss() as f64 / 1024.0)
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Returns the percentage of the last ten seconds in which a process waited for a CPU.
pub(crate) fn pressure() -> f64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.split_whitespace().find_map(|word| word.strip_prefix("avg10="));
    some.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Returns the percentage of a moment in which other processes wanted a CPU. This program keeps every CPU
/// busy for that moment, so that any other process has to wait or makes it wait; its own children have ended.
pub(crate) fn others() -> f64 {
    const MOMENT: Duration = Duration::from_millis(300);
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    let begun = Instant::now();
    let before = waited_us();
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                while begun.elapsed() < MOMENT {
                    std::hint::spin_loop();
                }
            });
        }
    });
    (waited_us() - before) / begun.elapsed().as_micros() as f64 * 100.0
}

/// Returns how long some process has waited for a CPU since the machine started, in microseconds.
fn waited_us() -> f64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.split_whitespace().find_map(|word| word.strip_prefix("total="));
    some.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Creates an empty folder on the disk that is measured. `TMPDIR` selects the disk; inside this repository
/// it would be part of the workspace.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = house().join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder for the bench");
    path
}

/// Returns a folder that is kept for the next run, and whether it existed: deleting tens of thousands of
/// files would affect the next measurement. Its creator must mark it as [whole](is_whole).
pub(crate) fn kept(name: &str) -> (PathBuf, bool) {
    let path = std::env::temp_dir().join("provost-speed-kept").join(name);
    let is_there = path.join(WHOLE).exists();
    if !is_there {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the bench");
    }
    (path, is_there)
}

pub(crate) fn is_whole(kept: &Path) {
    fs::write(kept.join(WHOLE), "").expect("a mark");
}

const WHOLE: &str = "whole";

fn house() -> PathBuf {
    std::env::temp_dir().join(format!("provost-speed-{}", std::process::id()))
}

/// Removes everything except the kept folders.
pub(crate) fn leave() {
    let _ = fs::remove_dir_all(house());
}

pub(crate) fn sync_ms() -> f64 {
    let mut file = File::create(folder("sync").join("file")).expect("a file");
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&[b'x'; 300]).and_then(|()| file.sync_data()).expect("a sync");
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    median(&times)
}

/// Formats seconds in a unit that fits.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
