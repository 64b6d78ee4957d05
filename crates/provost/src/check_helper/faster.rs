//! `provost-check faster`: a command needs at most a part of the time of another, measured side by side.
//!
//! Both commands run in turns, so that a busy machine slows both. The ratio of the medians has a 95 %
//! interval from resampling with a fixed seed: the same times give the same answer.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::base_tree::BaseTree;
use super::command;
use super::ending::Ending;
use super::service::go_on;

/// How often the times are resampled.
const SAMPLES: usize = 4_000;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
/// Fewer runs say nothing about the spread.
const RUNS_MIN: u32 = 5;

/// Check that a command is as fast as another, or faster by a factor
///
/// Runs both in turns and compares the medians of their times: time of COMMAND / time of the base. Holds if
/// the whole 95 % interval is at or below --ratio. Without --base, the same command runs in a copy of the
/// last commit.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check faster --ratio 0.8 -- ./bench.sh                    20 % less time than the last commit
  provost-check faster --ratio 1.1 --runs 20 -- python3 report.py   at most 10 % slower
  provost-check faster --base 'python3 old.py' -- python3 new.py    two commands")]
pub(super) struct Args {
    /// Runs of each command
    #[arg(long, default_value_t = 10, value_name = "NUMBER")]
    runs: u32,
    /// The largest ratio of the times
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    ratio: f64,
    /// The command to compare with, for bash
    #[arg(long, value_name = "COMMAND")]
    base: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    if args.runs < RUNS_MIN {
        return Err(Ending::Usage(format!("--runs {}: at least {RUNS_MIN} are needed", args.runs)));
    }
    let here = Path::new(".");
    let base = match &args.base {
        Some(line) => (vec!["bash".into(), "-c".into(), line.into()], None),
        None => (args.command.clone(), Some(BaseTree::check_out()?)),
    };
    let (base, tree) = (base.0, base.1);
    let there = tree.as_ref().map_or(here, |tree| tree.here.as_path());
    let old = || timed(&base, there).map_err(|why| Ending::NotRun(format!("the base: {why}")));
    let new = || timed(&args.command, here).map_err(Ending::Unmet);
    // The first runs fill caches, and are not counted.
    new()?;
    old()?;
    let (mut olds, mut news) = (Vec::new(), Vec::new());
    for round in 0..args.runs {
        go_on()?;
        if round % 2 == 0 {
            olds.push(old()?);
            news.push(new()?);
        } else {
            news.push(new()?);
            olds.push(old()?);
        }
    }
    Comparison::of(&olds, &news).judged(args.ratio)
}

/// Returns the seconds that a command takes.
fn timed(command: &[OsString], folder: &Path) -> Result<f64, String> {
    let Some((program, words)) = command.split_first() else { return Err("no command".to_owned()) };
    let mut starting = Command::new(program);
    starting.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    starting.stderr(Stdio::piped());
    let begun = Instant::now();
    let output = starting
        .output()
        .map_err(|error| format!("{} cannot be started: {error}", program.to_string_lossy()))?;
    let seconds = begun.elapsed().as_secs_f64();
    match output.status.success() {
        true => Ok(seconds),
        false => {
            let (how, said) = (command::ended(output.status), command::said(&output));
            Err(format!("{} ended with {how}{said}", program.to_string_lossy()))
        }
    }
}

/// The ratio of two medians, with its interval.
#[derive(Debug)]
struct Comparison {
    old: f64,
    new: f64,
    low: f64,
    high: f64,
    runs: usize,
}

impl Comparison {
    fn of(olds: &[f64], news: &[f64]) -> Self {
        let mut seed = SEED;
        let mut ratios: Vec<f64> =
            (0..SAMPLES).map(|_| resampled(news, &mut seed) / resampled(olds, &mut seed)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |part: f64| ratios[((SAMPLES - 1) as f64 * part).round() as usize];
        let (low, high) = (at(0.025), at(0.975));
        Self { old: median(olds.to_vec()), new: median(news.to_vec()), low, high, runs: news.len() }
    }

    fn judged(&self, limit: f64) -> Result<String, Ending> {
        let Self { old, new, low, high, runs } = self;
        let measured = format!(
            "{:.1} ms instead of {:.1} ms: ratio {:.3}, 95 % interval {low:.3} to {high:.3}, {runs} runs each",
            new * 1000.0,
            old * 1000.0,
            new / old
        );
        if *high <= limit {
            Ok(format!("{measured}; the limit is {limit}"))
        } else if *low > limit {
            Err(Ending::Unmet(format!("{measured}; the limit is {limit}")))
        } else {
            Err(Ending::Unmet(format!(
                "too noisy to tell: {measured}; the limit {limit} is inside of the interval. More --runs make \
                 it narrower"
            )))
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 }
}

/// Returns the median of as many times, drawn with repetition.
fn resampled(times: &[f64], seed: &mut u64) -> f64 {
    let draw = |_: usize| {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        times[(*seed % times.len() as u64) as usize]
    };
    median((0..times.len()).map(draw).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(middle: f64, spread: f64) -> Vec<f64> {
        (0..10).map(|at| middle + spread * (f64::from(at) - 4.5) / 9.0).collect()
    }

    #[test]
    fn a_clear_difference_is_told_from_noise() {
        let judged = |new: &[f64], limit| Comparison::of(&times(1.0, 0.05), new).judged(limit);
        assert!(judged(&times(0.5, 0.05), 0.8).is_ok());
        let Err(Ending::Unmet(slow)) = judged(&times(1.5, 0.05), 1.0) else { panic!("it is slower") };
        assert!(slow.starts_with("1500.0 ms instead of 1000.0 ms: ratio 1.500"), "{slow}");
        let Err(Ending::Unmet(noisy)) = judged(&times(1.0, 0.8), 1.0) else { panic!("it is noisy") };
        assert!(noisy.starts_with("too noisy to tell"), "{noisy}");
    }

    #[test]
    fn the_same_times_give_the_same_interval() {
        let one = format!("{:?}", Comparison::of(&times(1.0, 0.5), &times(0.9, 0.4)));
        assert_eq!(one, format!("{:?}", Comparison::of(&times(1.0, 0.5), &times(0.9, 0.4))));
    }
}
