//! Which level a run is at: the one that is demanded, or the strongest that holds.
//!
//! **Invariant:** nothing but the self-test attests a level that has a fence.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use provost_core::model::verdict::Isolation;

use super::{Error, Estate};
use crate::config::Demand;
use crate::sandbox;
use crate::sandbox::{Attestation, Offer, Probe, Vantage};

/// Those with a fence, strongest first.
const FENCED: [Isolation; 3] = [Isolation::Clean, Isolation::Landlock, Isolation::Uid];

/// Finds out what this machine holds, and what of it is used for `demand`.
pub fn attest(demand: Demand, estate: &Estate<'_>) -> Result<(Option<Offer>, Attestation), Error> {
    // What needs nothing of the kernel is not asked of it.
    if let Demand::Exactly(level @ (Isolation::InPlace | Isolation::GuardClean)) = demand {
        return Ok((
            None,
            Attestation { level, probes: Vec::new(), kernel: String::new(), bubblewrap: None },
        ));
    }
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

fn offered(estate: &Estate<'_>) -> Offer {
    let mut offer = sandbox::survey(estate.workspace);
    offer.launcher = estate.launcher.to_vec();
    offer
}

/// The levels with a fence, strongest first, and what was seen of each.
pub fn levels(estate: &Estate<'_>) -> (Offer, Vec<(Isolation, Vec<Probe>)>) {
    let offer = offered(estate);
    let vantage = vantage(estate);
    let seen = FENCED.map(|level| (level, sandbox::probes(&offer, &vantage, level)));
    (offer, seen.into())
}

/// The first level that holds; of those above, what did not.
fn strongest(offer: &Offer, vantage: &Vantage<'_>) -> Attestation {
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

fn vantage<'a>(estate: &Estate<'a>) -> Vantage<'a> {
    Vantage {
        state: estate.state,
        harness_pid: std::process::id(),
        api: served(estate.state),
        workspace: estate.workspace,
    }
}

/// Where the server of this state folder says that it listens.
fn served(state: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(state.join("serve").join("listening")).ok()?;
    let address: SocketAddr = text.lines().next()?.parse().ok()?;
    // One that was killed has left its word behind, and a port that nobody has tells nothing.
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok().map(|_| address)
}
