//! Deserializes the values of keys: times, sizes, sums, choices, names of sections.
//!
//! Each function is the `deserialize_with` of a field. `T` is the value or an `Option` of it. A message may
//! contain `{key}`; [`reading`](super::reading) adds the position.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::language::parse;
use provost_core::model::event::FailureClass;
use provost_core::model::plan::{AgentNetwork, GitPolicy};
use provost_core::model::run_policy::HomeAccess;
use provost_core::model::usage::Amount;
use provost_core::rules::recover::recipe::RecipeEnd;
use serde::de::{Deserialize, Deserializer, Error};
use toml::Spanned;

use super::choices::{MessageFormat, Permissions, SessionGate, Speaks};
use super::reading::{at, meant};
use crate::egress::meter::MeteredApi;
use crate::process;

/// Seconds, for [`time`].
pub(super) const WEEK: u64 = 7 * 24 * 3600;
pub(super) const YEAR: u64 = 365 * 24 * 3600;

/// A value that is one of a few words.
pub(super) trait Choice: Copy + 'static {
    const ALL: &'static [Self];
    /// Its name in a message; empty if the key says it.
    const NOUN: &'static str;
    fn word(self) -> &'static str;
}

macro_rules! choices {
    ($($choice:ident $noun:literal),*) => {$(
        impl Choice for $choice {
            const ALL: &'static [Self] = &$choice::ALL;
            const NOUN: &'static str = $noun;
            fn word(self) -> &'static str {
                $choice::word(self)
            }
        }
    )*};
}
choices!(FailureClass "class", MeteredApi "API", AgentNetwork "", GitPolicy "", HomeAccess "");
choices!(MessageFormat "", Permissions "", RecipeEnd "", SessionGate "", Speaks "");

/// Reads one of a few words.
pub(super) fn choice<'de, D: Deserializer<'de>, C: Choice, T: From<C>>(from: D) -> Result<T, D::Error> {
    let given = String::deserialize(from)?;
    C::ALL.iter().find(|each| each.word() == given).map(|each| T::from(*each)).ok_or_else(|| {
        let known: Vec<&str> = C::ALL.iter().map(|each| each.word()).collect();
        let what = match C::NOUN {
            "" => format!("`{{key}}` cannot be `{given}`"),
            noun => format!("there is no {noun} `{given}`"),
        };
        D::Error::custom(format!("{what}{}", meant(&given, &known)))
    })
}

/// Reads a text that `check` accepts.
pub(super) fn checked<'de, D: Deserializer<'de>, T: From<String>, E: Display>(
    from: D,
    check: impl Fn(&str) -> Result<(), E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    check(&text).map_err(D::Error::custom)?;
    Ok(text.into())
}

/// Reads a list whose entries `read` accepts.
pub(super) fn each<'de, D: Deserializer<'de>, T: Deserialize<'de>, U, E: Display>(
    from: D,
    read: impl Fn(T) -> Result<U, E>,
) -> Result<Vec<U>, D::Error> {
    let entries = Vec::<T>::deserialize(from)?.into_iter().enumerate();
    let read = |(index, entry)| read(entry).map_err(|wrong| D::Error::custom(at(index, wrong)));
    entries.map(read).collect()
}

/// Reads a program and its arguments.
pub(super) fn command<'de, D: Deserializer<'de>, T: From<Vec<String>>>(from: D) -> Result<T, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words.into()),
        _ => Err(D::Error::custom("a command needs at least the name of a program")),
    }
}

/// Reads a path; `~/` is the user's home folder.
pub(super) fn path<'de, D: Deserializer<'de>, T: From<PathBuf>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from).map(|path| at_home(&path).into())
}

/// Expands `~/` to the user's home folder.
pub(super) fn at_home(path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(rest),
        None => PathBuf::from(path),
    }
}

/// Reads a whole number of the type `N` within these bounds.
pub(super) fn integer<
    'de,
    D: Deserializer<'de>,
    N: TryFrom<i128>,
    T: From<N>,
    const LEAST: u64,
    const MOST: u64,
>(
    from: D,
) -> Result<T, D::Error> {
    within::<N, LEAST, MOST>(i128::deserialize(from)?)
        .map(T::from)
        .ok_or_else(|| D::Error::custom(format!("`{{key}}` must be between {LEAST} and {MOST}")))
}

/// Reads a list of whole numbers within these bounds.
pub(super) fn integers<'de, D: Deserializer<'de>, N: TryFrom<i128>, const LEAST: u64, const MOST: u64>(
    from: D,
) -> Result<Vec<N>, D::Error> {
    each(from, |number| {
        within::<N, LEAST, MOST>(number)
            .ok_or_else(|| format!("`{{key}}` must be a list of numbers between {LEAST} and {MOST}"))
    })
}

fn within<N: TryFrom<i128>, const LEAST: u64, const MOST: u64>(number: i128) -> Option<N> {
    let is_allowed = (i128::from(LEAST)..=i128::from(MOST)).contains(&number);
    is_allowed.then(|| N::try_from(number).ok()).flatten()
}

/// Reads dollars as micro-dollars.
pub(super) fn micro_usd<'de, D: Deserializer<'de>, T: From<u64>>(from: D) -> Result<T, D::Error> {
    const USD_MAX: f64 = 1e6;
    let usd = f64::deserialize(from)?;
    match (0.0..=USD_MAX).contains(&usd) {
        true => Ok(T::from((usd * 1e6).round() as u64)),
        false => Err(D::Error::custom(format!("`{{key}}` must be between 0 and {USD_MAX} dollars"))),
    }
}

/// Reads an amount, written as in a plan.
pub(super) fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
    let read = parse::budget(&String::deserialize(from)?).map(Amount::from).map_err(|part| {
        let message =
            format!("cannot read `{part}`: write `{{key}}` as \"max 200k tokens, $1.50, 20 minutes\"");
        D::Error::custom(message)
    })?;
    if [read.tokens, read.micro_usd, read.wall_ms].contains(&Some(0)) {
        return Err(D::Error::custom("`{key}` has a limit of zero; leave that part out"));
    }
    Ok(read)
}

/// Reads a size such as `"20 GiB"` or `"512 MiB"`; at least `LEAST` bytes.
pub(super) fn size<'de, D: Deserializer<'de>, T: From<u64>, const LEAST: u64>(
    from: D,
) -> Result<T, D::Error> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let text = String::deserialize(from)?;
    let read = UNITS.iter().find_map(|(unit, shift)| {
        let count: u64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
        count.checked_mul(1 << shift)
    });
    match read {
        Some(bytes) if bytes >= LEAST => Ok(T::from(bytes)),
        Some(_) => Err(D::Error::custom(format!("`{{key}}` must be at least {}", process::size(LEAST)))),
        None => Err(D::Error::custom(
            "`{key}` must be a size such as \"20 GiB\" or \"512 MiB\", with a whole number",
        )),
    }
}

/// Reads a time such as `"10m"` or `"1h 30m"`; more than zero and at most `LONGEST` seconds.
pub(super) fn time<'de, D: Deserializer<'de>, T: From<Duration>, const LONGEST: u64>(
    from: D,
) -> Result<T, D::Error> {
    let time = humantime::parse_duration(String::deserialize(from)?.trim()).map_err(|error| {
        D::Error::custom(format!("`{{key}}` must be a time such as \"10m\" or \"60s\": {error}"))
    })?;
    let longest = Duration::from_secs(LONGEST);
    if time.is_zero() || time > longest {
        let longest = humantime::format_duration(longest);
        return Err(D::Error::custom(format!("`{{key}}` must be more than zero and at most {longest}")));
    }
    Ok(T::from(time))
}

/// Reads sections by the names that people gave them, in the order of the text.
pub(super) fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>, M: FromIterator<(String, T)>>(
    from: D,
) -> Result<M, D::Error> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Name(String);
    impl<'de> Deserialize<'de> for Name {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let name = String::deserialize(from)?;
            if name.is_empty() || name.chars().any(|each| each.is_whitespace() || each.is_control()) {
                let message = format!("{name:?} is not a valid name for a section of [{{section}}]");
                return Err(D::Error::custom(message));
            }
            Ok(Self(name))
        }
    }
    let sections = BTreeMap::<Name, Spanned<T>>::deserialize(from)?;
    let mut sections: Vec<_> = sections.into_iter().collect();
    sections.sort_by_key(|(_, section)| section.span().start);
    Ok(sections.into_iter().map(|(Name(name), section)| (name, section.into_inner())).collect())
}
