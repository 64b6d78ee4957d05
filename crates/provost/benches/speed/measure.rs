//! Clocks and rounds: how a subject and its floor are measured so that noise falls on both.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};

/// One operation over all rounds, in seconds a round.
#[derive(Default)]
pub struct Sample {
    pub cpu: Vec<f64>,
    pub wall: Vec<f64>,
}

impl Sample {
    pub fn cpu_median(&self) -> f64 {
        median(&self.cpu)
    }

    /// The median of the ratios of each round, both of which had the same noise.
    pub fn cpu_over(&self, floor: &Sample) -> f64 {
        median(&self.cpu.iter().zip(&floor.cpu).map(|(a, b)| a / b).collect::<Vec<_>>())
    }
}

/// Runs every operation once a round, in an order that turns.
pub fn interleaved<const N: usize>(rounds: usize, operations: [&mut dyn FnMut(); N]) -> [Sample; N] {
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

/// What this process and its children that were waited for have used.
pub fn cpu_seconds() -> f64 {
    let of = |who| {
        getrusage(who).map_or(0.0, |usage: Usage| seconds(usage.user_time()) + seconds(usage.system_time()))
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

/// The largest child, in MB.
pub fn largest_child_mb() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| usage.max_rss() as f64 / 1024.0)
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Percent of the last ten seconds in which somebody waited for a processor.
pub fn pressure() -> f64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.split_whitespace().find_map(|word| word.strip_prefix("avg10="));
    some.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// A folder on the disk that is measured, empty. `TMPDIR` says which disk; inside this repository it
/// would be part of its workspace.
pub fn folder(name: &str) -> PathBuf {
    let path = house().join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder for the bench");
    path
}

/// A folder that stays for the next run, and whether it was there: to delete ten thousands of files would be
/// measured with whatever comes after it. What makes it has to say when it is [whole](is_whole).
pub fn kept(name: &str) -> (PathBuf, bool) {
    let path = std::env::temp_dir().join("provost-speed-kept").join(name);
    let is_there = path.join(WHOLE).exists();
    if !is_there {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the bench");
    }
    (path, is_there)
}

pub fn is_whole(kept: &Path) {
    fs::write(kept.join(WHOLE), "").expect("a mark");
}

const WHOLE: &str = "whole";

fn house() -> PathBuf {
    std::env::temp_dir().join(format!("provost-speed-{}", std::process::id()))
}

/// Nothing is left behind but what is kept.
pub fn leave() {
    let _ = fs::remove_dir_all(house());
}

pub fn sync_ms() -> f64 {
    let mut file = File::create(folder("sync").join("file")).expect("a file");
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&[b'x'; 300]).and_then(|()| file.sync_data()).expect("a sync");
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    median(&times)
}

/// For tables: seconds in a unit that fits.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
