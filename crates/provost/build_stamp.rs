//! Describes a build by its commit and date, for `provost --version`.

use std::path::Path;
use std::process::Command;

/// Returns ` (COMMIT DATE)` of provost's own repository at `root`. The date is that of the commit, or `epoch`
/// (seconds, from SOURCE_DATE_EPOCH). Each is left out if it is unknown.
pub(crate) fn stamp(root: &Path, epoch: Option<i64>) -> String {
    // The source may lie inside of another repository, whose commits say nothing.
    let top =
        git(root, &["rev-parse", "--show-toplevel"]).and_then(|top| Path::new(&top).canonicalize().ok());
    let is_own = top.is_some() && top == root.canonicalize().ok();
    let asked = |format: &str| is_own.then(|| git(root, &["log", "-1", format])).flatten();
    let date = epoch.map(date).or_else(|| asked("--format=%cs"));
    let parts: Vec<String> = asked("--format=%h").into_iter().chain(date).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" ")) }
}

/// Runs git in a folder. Returns its output, or nothing if it fails or prints nothing.
pub(crate) fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let asked = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    let text = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    (asked.status.success() && !text.is_empty()).then_some(text)
}

/// Returns the day of a time since 1970, in UTC. The years start in March, so that a leap day is the last day of
/// its year.
fn date(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
