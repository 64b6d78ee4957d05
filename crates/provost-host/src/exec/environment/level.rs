//! Chooses the isolation level of a run: the demanded one, or the strongest one that the machine attests.
//!
//! **Invariant:** only the self-test attests a level that has a sandbox.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use provost_core::model::verdict::Isolation;

use super::{Error, RunPaths};
use crate::activity::Activity;
use crate::config::Demand;
use crate::sandbox;
use crate::sandbox::{Attestation, SandboxFeatures, SelfTestProbe, Vantage};

/// Levels with a sandbox, strongest first.
const FENCED: [Isolation; 2] = [Isolation::Clean, Isolation::Landlock];

/// Finds out which levels this machine supports, and attests the one for `demand`.
pub fn attest(
    demand: Demand,
    estate: &RunPaths<'_>,
) -> Result<(Option<SandboxFeatures>, Attestation), Error> {
    // These levels need nothing from the kernel, so no probe runs.
    if let Demand::Exactly(level @ (Isolation::InPlace | Isolation::GuardClean)) = demand {
        return Ok((
            None,
            Attestation { level, probes: Vec::new(), kernel: String::new(), bubblewrap: None },
        ));
    }
    if let Demand::Exactly(wanted @ (Isolation::Uid | Isolation::None)) = demand {
        return Err(Error::Unattested { wanted, why: "no run can have this level".to_owned() });
    }
    let _activity = Activity::begin("testing the sandbox");
    let offer = offered(estate);
    let vantage = vantage(estate);
    let attestation = match demand {
        Demand::Exactly(Isolation::Clean) => sandbox::self_test(&offer, &vantage),
        Demand::Exactly(level) => {
            let probes = sandbox::probes(&offer, &vantage, level);
            let has_held = probes.iter().all(|probe| probe.held);
            sandbox::attested(&offer, if has_held { level } else { Isolation::GuardClean }, probes)
        }
        Demand::Auto => strongest(&offer, &vantage),
    };
    match demand {
        Demand::Exactly(wanted) if wanted != attestation.level => {
            let failed: Vec<String> =
                attestation.failed().map(|probe| format!("{}: {}", probe.name, probe.detail)).collect();
            let why = match failed.is_empty() {
                false => failed.join("; "),
                true => "the self-test attests another level".to_owned(),
            };
            Err(Error::Unattested { wanted, why })
        }
        Demand::Auto | Demand::Exactly(_) => Ok((Some(offer), attestation)),
    }
}

fn offered(estate: &RunPaths<'_>) -> SandboxFeatures {
    let mut offer = sandbox::survey(estate.workspace);
    offer.launcher = estate.launcher.to_vec();
    offer
}

/// Probes the levels with a sandbox, strongest first.
pub fn levels(estate: &RunPaths<'_>) -> (SandboxFeatures, Vec<(Isolation, Vec<SelfTestProbe>)>) {
    let offer = offered(estate);
    let vantage = vantage(estate);
    let seen = FENCED.map(|level| (level, sandbox::probes(&offer, &vantage, level)));
    (offer, seen.into())
}

/// Attests the first level whose probes all hold, and reports the failed probes of the stronger ones.
fn strongest(offer: &SandboxFeatures, vantage: &Vantage<'_>) -> Attestation {
    let mut failed = Vec::new();
    for level in FENCED {
        let probes = sandbox::probes(offer, vantage, level);
        if probes.iter().all(|probe| probe.held) {
            return sandbox::attested(offer, level, failed.into_iter().chain(probes).collect());
        }
        failed.extend(probes.into_iter().filter(|probe| level == Isolation::Clean || !probe.held));
    }
    sandbox::attested(offer, Isolation::GuardClean, failed)
}

fn vantage<'a>(estate: &RunPaths<'a>) -> Vantage<'a> {
    Vantage {
        state: estate.state,
        harness_pid: std::process::id(),
        api: served(estate.state),
        workspace: estate.workspace,
    }
}

/// Returns the address on which the server of this state folder listens.
fn served(state: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(state.join("serve").join("listening")).ok()?;
    let address: SocketAddr = text.lines().next()?.parse().ok()?;
    // A killed server leaves this file behind, and a closed port would prove nothing.
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok().map(|_| address)
}
