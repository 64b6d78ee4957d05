//! Computes the wait before the next try.
//!
//! A recipe has its own waits. If the service that refused a request said when to come back, the longer wait
//! applies. A little is added, so that many refused callers do not return at the same time.
//!
//! **Invariant:** the same plan, step and attempt always wait the same time: nothing here is random.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use regex::Regex;

use crate::model::hash::Hash;
use crate::model::timestamp::Timestamp;

/// Maximum wait; beyond it a person decides.
pub const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Returns `pause` plus up to a fifth of it, at most half a minute more.
pub fn spread(pause: Duration, of: &str) -> Duration {
    let Hash(bytes) = Hash::of(of.as_bytes());
    let thousandth = u32::from(u16::from_be_bytes([bytes[0], bytes[1]])) % 201;
    pause + (pause * thousandth / 1000).min(Duration::from_secs(30))
}

/// Returns the wait that the service asks for in `text`, if any.
pub fn asked(text: &str, now: Timestamp) -> Option<Duration> {
    let spans = AFTER.captures_iter(text).filter_map(|found| {
        let number = |name: &str| found.name(name).and_then(|text| text.as_str().parse::<f64>().ok());
        let unit = |name: &str| found.name(name).map_or(1.0, |unit| seconds_of(unit.as_str()));
        let seconds = number("number")? * unit("unit") + number("more").unwrap_or(0.0) * unit("less");
        Duration::try_from_secs_f64(seconds).ok()
    });
    let milliseconds = AFTER_MS.captures_iter(text).filter_map(|found| found[1].parse().ok());
    let instants = INSTANT.captures_iter(text).filter_map(|found| instant(&found[1], now));
    let longest = spans.chain(milliseconds.map(Duration::from_millis)).chain(instants).max()?;
    (!longest.is_zero()).then_some(longest)
}

/// Returns the seconds of a unit.
fn seconds_of(unit: &str) -> f64 {
    match unit.to_ascii_lowercase().as_str() {
        "ms" | "msec" | "milliseconds" | "millisecond" => 0.001,
        unit if unit.starts_with('m') => 60.0,
        unit if unit.starts_with('h') => 3600.0,
        _ => 1.0,
    }
}

/// Reads an instant of a header: seconds since 1970 or from now, RFC 3339, or an HTTP date.
fn instant(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim().trim_matches('"');
    let until = match text.parse::<u64>() {
        // Too early to be a date: it is a duration.
        Ok(seconds) if seconds < 1_000_000_000 => return Some(Duration::from_secs(seconds)),
        Ok(seconds) if seconds < 100_000_000_000 => Duration::from_secs(seconds),
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => match humantime::parse_rfc3339_weak(text) {
            Ok(at) => at.duration_since(UNIX_EPOCH).ok()?,
            Err(_) => http_date(text)?,
        },
    };
    Some(until.saturating_sub(Duration::from_millis(now.0)))
}

/// Reads `Wed, 21 Oct 2026 07:28:00 GMT`.
fn http_date(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u32 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? + 1;
    let (year, time) = (words.next()?, words.next()?);
    let at = humantime::parse_rfc3339(&format!("{year}-{month:02}-{day:02}T{time}Z")).ok()?;
    at.duration_since(UNIX_EPOCH).ok()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
}

static AFTER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)
        (?: retry[-_ ]after [\x22']? \s* [:=]? \s* [\x22']?
          | (?:try|retry) (?:ing|\ your\ request)? (?:\ again)? \ (?:in|after) \s+ (?:about\ |another\ )?
          | (?:wait|resets?) (?:\ for|\ in|\ another)* \s+ )
        (?P<number>[0-9]{1,9}(?:\.[0-9]{1,6})?) \s*
        (?P<unit>ms|msec|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)?
        (?: [\ ]? (?P<more>[0-9]{1,2}(?:\.[0-9]{1,6})?) \s* (?P<less>minutes?|mins?|m|seconds?|secs?|s)\b )?
        (?: \b | $ )",
    )
});

static AFTER_MS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)retry[-_]after[-_]ms["']?\s*[:=]\s*["']?([0-9]{1,12})"#));

static INSTANT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)(?:ratelimit[-_]reset(?:[-_][a-z]+)?["']?\s*[:=]\s*|reset(?:s|_at|At)?["']?\s*(?:[:=]|at|on)\s*|limit reached\||retry-after:\s*)("?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{5,15}Z?|[a-z]{3}, [0-9]{2} [a-z]{3} [0-9]{4} [0-9:]{8} gmt|[0-9]{1,13}))"#,
    )
});

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{asked, spread};
    use crate::model::timestamp::Timestamp;

    /// 2026-10-21T07:28:00Z
    const NOW: Timestamp = Timestamp(1_792_567_680_000);

    #[test]
    fn what_servers_say_about_when_to_come_back() {
        let told = [
            ("HTTP/1.1 429\nRetry-After: 30\n", 30_000),
            ("retry-after-ms: 1500", 1_500),
            ("Rate limit reached. Please try again in 20s.", 20_000),
            ("Please try again in 6m30s.", 390_000),
            ("Please try again in 120ms", 120),
            ("please retry after 2 minutes", 120_000),
            ("try again in 3 hours 5 minutes.", 11_100_000),
            ("x-ratelimit-reset: 1792567740", 60_000),
            ("usage limit reached|1792567740", 60_000),
            ("anthropic-ratelimit-requests-reset: 2026-10-21T07:30:00Z", 120_000),
            ("limit resets at 2026-10-21T07:29:00Z", 60_000),
            ("Retry-After: Wed, 21 Oct 2026 07:28:45 GMT", 45_000),
        ];
        for (text, millis) in told {
            assert_eq!(asked(text, NOW), Some(Duration::from_millis(millis)), "{text}");
        }
        for silent in ["", "try again later", "resets at 2020-01-01T00:00:00Z", "waited for the 3 of them"] {
            assert_eq!(asked(silent, NOW), None, "{silent}");
        }
    }

    #[test]
    fn a_pause_is_spread_by_at_most_a_fifth_and_always_alike() {
        let five = Duration::from_secs(5);
        let all: Vec<Duration> = (0..200).map(|each| spread(five, &format!("plan/1/{each}"))).collect();
        assert!(all.iter().all(|pause| (five..=five * 6 / 5).contains(pause)));
        assert!(all.iter().max() > all.iter().min());
        assert_eq!(spread(five, "plan/1/1"), spread(five, "plan/1/1"));
    }
}
