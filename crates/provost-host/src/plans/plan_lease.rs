//! Lease on a plan of a shared folder: a small file beside the plan, changed only by compare-and-swap.
//!
//! Machines that share a folder share no lock and no clock. A lease has an expiry time. Its holder renews
//! it well before that, and gives it up if no renewal succeeded for the length of the lease. Others take it
//! over only if it expired at least one lease length ago, so that clocks may differ by that much; or if
//! they saw no renewal for three lease lengths, whatever the clocks say. On the holder's own machine,
//! others see at once that it died.
//!
//! If a sync tool copies the folder between machines, changes arrive late: two leases may exist until then,
//! and finally a conflict copy. Each holder reads the file before it renews, and stops if its lease is
//! gone.
//!
//! **Invariant:** a lease is written only over the text that was read, with the next epoch.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::plans::plan_file::{self, Error as FileError, PlanPlace};

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub host: String,
    pub pid: u32,
    /// The holder's activity, for people.
    pub what: String,
    /// Milliseconds since 1970, by the holder's clock.
    pub since: u64,
    /// Expiry in the same unit; zero means given back.
    pub until: u64,
    pub lease_ms: u64,
    /// Incremented by every new holder.
    pub epoch: u64,
    /// Incremented by every renewal.
    pub renewed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// Boot id of the machine; a process from before a reboot is dead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

impl Claim {
    pub fn is_given_back(&self) -> bool {
        self.until == 0
    }

    /// Returns whether it expired so long ago that a clock difference cannot explain it.
    pub fn is_expired(&self, now: u64) -> bool {
        now > self.until.saturating_add(self.lease_ms)
    }

    /// Returns whether it expires later than any lease can, which means that a clock is wrong.
    pub fn is_from_the_future(&self, now: u64) -> bool {
        self.until > now.saturating_add(self.lease_ms.saturating_mul(2))
    }

    /// Returns whether its process is dead, as far as this machine can tell.
    pub fn is_dead(&self) -> bool {
        let here = Self::here("", 0, Duration::ZERO);
        if self.host != here.host || self.boot.is_empty() {
            return false;
        }
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let is_gone =
            pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
        self.boot != here.boot || (self.pid_namespace == here.pid_namespace && is_gone)
    }

    fn here(what: &str, now: u64, lease: Duration) -> Self {
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok();
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        Self {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            what: what.to_owned(),
            since: now,
            until: now.saturating_add(lease_ms),
            lease_ms,
            epoch: 1,
            renewed: 0,
            pid_namespace: namespace.map(|found| std::os::unix::fs::MetadataExt::ino(&found)),
            boot: crate::files::folder::boot().to_owned(),
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |ms: u64| provost_core::model::timestamp::Timestamp(ms);
        write!(
            f,
            "{} (process {} on {}, since {}, until {})",
            self.what,
            self.pid,
            self.host,
            at(self.since),
            at(self.until)
        )
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the plan is locked by {0}")]
    Held(Box<Claim>),
    #[error("{} is not a readable claim; remove it if no process works on the plan", .0.display())]
    Unreadable(PathBuf),
    #[error("this process lost its claim on the plan: {0}")]
    Lost(String),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Returns the lease file of a plan.
pub fn file(place: &PlanPlace) -> PathBuf {
    let name = match place.name.as_str() {
        "PLAN.md" => "lease.json".to_owned(),
        _ => format!("lease-{}.json", place.slug),
    };
    place.dir.join(name)
}

/// Reads a lease; `None` if the file is missing or unreadable.
pub fn look(path: &Path) -> Option<Claim> {
    read(path).ok().flatten().map(|(claim, _)| claim)
}

fn read(path: &Path) -> Result<Option<(Claim, Hash)>, Error> {
    match plan_file::read(path) {
        Ok(text) => match serde_json::from_slice(&text.bytes) {
            Ok(claim) => Ok(Some((claim, text.hash))),
            Err(_) => Err(Error::Unreadable(path.to_owned())),
        },
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Marks an abandoned lease as given back. A lease that is still renewed is left alone.
pub fn release(path: &Path, now: u64) -> Result<(), Error> {
    match read(path)? {
        Some((claim, hash)) if claim.is_expired(now) || claim.is_dead() => {
            plan_file::replace(path, &hash, &Claim { until: 0, ..claim }.text())?;
            Ok(())
        }
        Some((claim, _)) if !claim.is_given_back() => Err(Error::Held(Box::new(claim))),
        _ => Ok(()),
    }
}

/// A process that wants the plan, with its observations of the current holder.
pub struct Candidate<'a> {
    path: &'a Path,
    what: &'a str,
    lease: Duration,
    seen: Option<(u64, u64, Instant)>,
}

impl<'a> Candidate<'a> {
    pub fn new(path: &'a Path, what: &'a str, lease: Duration) -> Self {
        Self { path, what, lease, seen: None }
    }

    /// Takes the plan if it is free or abandoned. The second value is the abandoned lease.
    pub fn claim(&mut self, now: u64) -> Result<(OwnLease, Option<Claim>), Error> {
        let mut own = Claim::here(self.what, now, self.lease);
        let Some((found, hash)) = read(self.path)? else {
            plan_file::create(self.path, &own.text()).map_err(|error| self.too_late(error))?;
            return Ok((OwnLease::new(self.path, own, self.lease), None));
        };
        own.epoch = found.epoch.saturating_add(1);
        let is_left = found.is_expired(now) || found.is_dead() || self.stood_still(&found);
        if !found.is_given_back() && !is_left {
            return Err(Error::Held(Box::new(found)));
        }
        plan_file::replace(self.path, &hash, &own.text()).map_err(|error| self.too_late(error))?;
        let before = (!found.is_given_back()).then_some(found);
        Ok((OwnLease::new(self.path, own, self.lease), before))
    }

    /// Returns whether the lease was not renewed for three lease lengths, by our own clock.
    fn stood_still(&mut self, found: &Claim) -> bool {
        let now = Instant::now();
        match self.seen {
            Some((epoch, renewed, since)) if (epoch, renewed) == (found.epoch, found.renewed) => {
                now.duration_since(since) > Duration::from_millis(found.lease_ms).saturating_mul(3)
            }
            _ => {
                self.seen = Some((found.epoch, found.renewed, now));
                false
            }
        }
    }

    /// Returns `Held` if another process was faster.
    fn too_late(&self, error: FileError) -> Error {
        match error {
            FileError::Changed { .. } | FileError::Exists { .. } => match look(self.path) {
                Some(claim) => Error::Held(Box::new(claim)),
                None => error.into(),
            },
            error => error.into(),
        }
    }
}

/// Our own lease. [`Held::give_back`] returns it, not a drop, so that a crash and a drop look the same to
/// others.
pub struct OwnLease {
    path: PathBuf,
    claim: Claim,
    lease: Duration,
    /// When it was last known to be ours.
    fresh: Instant,
}

impl OwnLease {
    fn new(path: &Path, claim: Claim, lease: Duration) -> Self {
        Self { path: path.to_owned(), claim, lease, fresh: Instant::now() }
    }

    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns the pause between renewals.
    pub fn pause(&self) -> Duration {
        self.lease / 3
    }

    /// Extends the lease if it is still ours. Errors of the folder are ignored until the lease expires.
    pub fn renew(&mut self, now: u64) -> Result<(), Error> {
        let begun = Instant::now();
        match self.renewed(now) {
            Ok(()) => {
                self.fresh = begun;
                Ok(())
            }
            Err(Error::Lost(why)) => Err(Error::Lost(why)),
            Err(error) if self.fresh.elapsed() > self.lease => Err(Error::Lost(error.to_string())),
            Err(_) => Ok(()),
        }
    }

    fn renewed(&mut self, now: u64) -> Result<(), Error> {
        let lost = |by: &Claim| Error::Lost(format!("it is locked by {by}"));
        let Some((found, hash)) = read(&self.path)? else {
            return Err(Error::Lost("another process removed it".to_owned()));
        };
        if !self.is_ours(&found) {
            return Err(lost(&found));
        }
        let until = now.saturating_add(self.claim.lease_ms);
        let next = Claim { until, renewed: found.renewed.saturating_add(1), ..self.claim.clone() };
        plan_file::replace(&self.path, &hash, &next.text())?;
        self.claim = next;
        Ok(())
    }

    fn is_ours(&self, found: &Claim) -> bool {
        let who = |claim: &Claim| (claim.epoch, claim.pid, claim.host.clone(), claim.since);
        who(found) == who(&self.claim)
    }

    /// Gives the plan back. The file stays, with its epoch.
    pub fn give_back(self) {
        if let Ok(Some((found, hash))) = read(&self.path)
            && self.is_ours(&found)
        {
            let _ = plan_file::replace(&self.path, &hash, &Claim { until: 0, ..found }.text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn of_elsewhere(path: &Path, change: impl FnOnce(&mut Claim)) {
        let (claim, hash) = read(path).expect("read").expect("a claim");
        let mut claim = Claim { host: "elsewhere".to_owned(), ..claim };
        change(&mut claim);
        plan_file::replace(path, &hash, &claim.text()).expect("replaced");
    }

    #[test]
    fn a_claim_is_taken_over_only_when_it_has_been_over_for_as_long_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lease-foo.json");
        let claim = |now| Candidate::new(&path, "plan foo", LEASE).claim(now);
        let (first, before) = claim(1_000_000).expect("free");
        assert_eq!((first.claim().epoch, before), (1, None));
        of_elsewhere(&path, |_| {});
        // It expires at 1,060,000 by the holder's clock; ours may be a minute ahead.
        for now in [1_000_001, 1_060_001, 1_120_000] {
            assert!(matches!(claim(now), Err(Error::Held(_))), "{now}");
        }
        let (second, before) = claim(1_120_001).expect("left behind");
        assert_eq!((second.claim().epoch, before.map(|claim| claim.host)), (2, Some("elsewhere".to_owned())));
        let mut first = first;
        assert!(matches!(first.renew(1_120_002), Err(Error::Lost(_))), "the former holder notices");
        second.give_back();
        let (third, before) = claim(1_120_003).expect("given back");
        assert_eq!((third.claim().epoch, before), (3, None));
    }

    #[test]
    fn a_process_that_is_dead_on_this_machine_holds_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lease.json");
        let (_held, _) = Candidate::new(&path, "x", LEASE).claim(1000).expect("free");
        assert!(matches!(Candidate::new(&path, "x", LEASE).claim(1001), Err(Error::Held(_))));
        let (claim, hash) = read(&path).expect("read").expect("a claim");
        let dead = Claim { boot: "before".to_owned(), ..claim };
        plan_file::replace(&path, &hash, &dead.text()).expect("replaced");
        let (held, before) = Candidate::new(&path, "x", LEASE).claim(1002).expect("taken over");
        assert_eq!((held.claim().epoch, before.is_some()), (2, true));
    }

    #[test]
    fn a_claim_is_renewed_and_stays_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lease.json");
        let (mut held, _) = Candidate::new(&path, "x", LEASE).claim(1000).expect("free");
        held.renew(30_000).expect("renewed");
        let found = look(&path).expect("a claim");
        assert_eq!((found.until, found.renewed, found.epoch), (90_000, 1, 1));
        assert!(found.is_from_the_future(0) == (90_000 > 120_000));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lease.json");
        std::fs::write(&path, "<<<<<<< theirs").expect("written");
        assert!(matches!(Candidate::new(&path, "x", LEASE).claim(1), Err(Error::Unreadable(_))));
        assert_eq!(std::fs::read(&path).expect("read"), b"<<<<<<< theirs");
    }
}
