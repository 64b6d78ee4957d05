//! `provost-check size`: a file is not too large, or not much larger than before.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::base_tree::{self, BaseTree};
use super::command;
use super::ending::Ending;

/// Check that files or folders are not larger than a limit, or not much larger than before
///
/// A folder counts as the sum of its files. --max-growth compares with the same file in the last commit, with
/// what --build makes from the last commit, or with --than.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check size dist/app.js --max 200kB
  provost-check size dist --max-growth 5% --build 'npm run build'
  provost-check size app.bin --max-growth 0% --than 1200000
  provost-check size logo.png --max-growth 10%

Units: B, kB, MB, GB (1,000) and KiB, MiB, GiB (1,024).")]
pub(super) struct Args {
    /// Files or folders
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The largest size, such as 2MB
    #[arg(long, required_unless_present = "max_growth", value_name = "SIZE")]
    max: Option<Size>,
    /// The largest growth, such as 5%
    #[arg(long, value_name = "PERCENT")]
    max_growth: Option<Percent>,
    /// A file, a folder or a size to compare with
    #[arg(long, requires = "max_growth", conflicts_with = "build", value_name = "FILE|SIZE")]
    than: Option<String>,
    /// A command that makes the files in a copy of the last commit
    #[arg(long, requires = "max_growth", value_name = "COMMAND")]
    build: Option<String>,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Size(u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return Err(format!("`{unit}` is not a unit; write 200kB, 2MB or 1MiB")),
        };
        let number: f64 = number.parse().map_err(|_| "write a size such as 200kB or 2MB".to_owned())?;
        Ok(Self((number * factor as f64).round() as u64))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        f.write_str(" bytes")
    }
}

/// A percentage, with or without its sign.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Percent(pub(super) f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: Result<f64, _> = text.trim_end_matches('%').parse();
        match number {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Self(number)),
            _ => Err("write a percentage such as 5%".to_owned()),
        }
    }
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let base = match &args.build {
        Some(line) => Some(built(line)?),
        None => None,
    };
    let (mut unmet, mut met) = (Vec::new(), Vec::new());
    for file in &args.files {
        let size = size_of(file).map_err(|error| Ending::Unmet(format!("{}: {error}", file.display())))?;
        let name = file.display();
        if let Some(max) = args.max.filter(|max| size > *max) {
            unmet.push(format!("{name} has {size}; the limit is {max}"));
        }
        let mut grown = String::new();
        if let Some(Percent(most)) = args.max_growth {
            let before = before(args, file, base.as_ref())?;
            let growth = (size.0 as f64 - before.0 as f64) * 100.0 / before.0.max(1) as f64;
            grown = format!(", {growth:+.1} % from {before}");
            if growth > most {
                unmet.push(format!("{name} has {size}{grown}; the limit is {most:+} %"));
            }
        }
        met.push(format!("{name} has {size}{grown}"));
    }
    if unmet.is_empty() { Ok(met.join("; ")) } else { Err(Ending::unmet_all(&unmet)) }
}

/// Builds the base, and returns its tree.
fn built(line: &str) -> Result<BaseTree, Ending> {
    let base = BaseTree::check_out()?;
    let output = command::shell(line, &base.here)?;
    if output.status.success() {
        return Ok(base);
    }
    let (how, said) = (command::ended(output.status), command::said(&output));
    Err(Ending::NotRun(format!("--build ended with {how} on the last commit{said}")))
}

/// Returns the size to compare with.
fn before(args: &Args, file: &Path, base: Option<&BaseTree>) -> Result<Size, Ending> {
    if let Some(base) = base {
        let missing = |error| Ending::NotRun(format!("--build did not make {}: {error}", file.display()));
        return size_of(&base.here.join(file)).map_err(missing);
    }
    let Some(than) = &args.than else {
        return base_tree::file(file).map(|bytes| Size(bytes.len() as u64)).map_err(|ending| match ending {
            Ending::NotRun(why) => Ending::NotRun(format!(
                "the last commit has no file to compare {} with ({why}); use --build or --than",
                file.display()
            )),
            other => other,
        });
    };
    match (size_of(Path::new(than)), than.parse()) {
        (Ok(size), _) | (Err(_), Ok(size)) => Ok(size),
        (Err(error), Err(_)) => Err(Ending::NotRun(format!("--than {than}: {error}"))),
    }
}

/// Returns the size of a file, or of all files in a folder.
fn size_of(path: &Path) -> std::io::Result<Size> {
    let found = std::fs::metadata(path)?;
    if !found.is_dir() {
        return Ok(Size(found.len()));
    }
    let (mut total, mut open) = (0, vec![path.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() { open.push(entry.path()) } else { total += found.len() }
        }
    }
    Ok(Size(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let bytes = |text: &str| text.parse::<Size>().map(|size| size.0).ok();
        assert_eq!(bytes("2MB"), Some(2_000_000));
        assert_eq!(bytes("1.5 kB"), Some(1_500));
        assert_eq!(bytes("1MiB"), Some(1 << 20));
        assert_eq!(bytes("17"), Some(17));
        assert_eq!((bytes("2 apples"), bytes("MB"), bytes("")), (None, None, None));
        assert_eq!(Size(1_234_567).to_string(), "1,234,567 bytes");
        assert_eq!("5%".parse(), Ok(Percent(5.0)));
        assert!("-5%".parse::<Percent>().is_err());
    }
}
