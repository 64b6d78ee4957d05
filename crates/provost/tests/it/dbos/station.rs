//! A test machine: its own state folder, and a connection to the database that can be disturbed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use provost_store::postgres::wire::Wire;

use super::net::Net;
use super::{Fleet, Worker};
use crate::env::answer;

const TRIES: usize = 20;

pub(super) struct Station {
    pub state: PathBuf,
    wire: Option<Wire>,
    net: Option<Net>,
}

impl Station {
    /// The person's machine; its connection is never disturbed.
    pub(super) fn near(fleet: &Fleet) -> Self {
        Self { state: fleet.env.state(), wire: None, net: None }
    }

    pub(super) fn by_wire(fleet: &Fleet, name: &str) -> Self {
        Self::with(fleet, name, Wire::to(fleet.cluster), None)
    }

    /// A machine in a separate network, if one can be made.
    pub(super) fn by_net(fleet: &Fleet, name: &str) -> Self {
        match Net::new() {
            Some(net) => Self::with(fleet, name, Wire::at(fleet.cluster, net.outside), Some(net)),
            None => Self::by_wire(fleet, name),
        }
    }

    /// Copies the registry of plans, as if this machine had recorded them.
    fn with(fleet: &Fleet, name: &str, wire: Wire, net: Option<Net>) -> Self {
        let state = fleet.env.folder().join(name);
        let url = wire.url(fleet.database());
        let joins = fleet.command(0, &["migrate", "--to", &url]).env("PROVOST_STATE", &state).output();
        answer(joins.expect("provost")).exits(0);
        let known = [fleet.env.state().join("places"), state.clone()];
        if known[0].read_dir().map_or(0, Iterator::count) < fleet.places.len() {
            (0..fleet.places.len()).for_each(|place| drop(fleet.provost(place, &["verify"]).exits(0)));
        }
        assert!(Command::new("cp").arg("-r").args(known).status().expect("cp").success());
        Self { state, wire: Some(wire), net }
    }

    /// Starts a worker, again and again until it has joined, as a service would: a link takes a moment to
    /// come up.
    pub(super) fn worker(&self, fleet: &Fleet, arguments: &[&str]) -> Worker {
        let command = || {
            let command = fleet.worker_command(&self.state, arguments);
            self.net.as_ref().map(|net| net.inside(&command)).unwrap_or(command)
        };
        let joined = (0..TRIES).find_map(|_| fleet.try_join(command()));
        joined.unwrap_or_else(|| panic!("it did not join: {}", fleet.said()))
    }

    pub(super) fn cut(&self) {
        self.wire.iter().for_each(Wire::cut);
    }

    pub(super) fn hold(&self) {
        self.wire.iter().for_each(Wire::hold);
    }

    pub(super) fn refuse(&self) {
        self.wire.iter().for_each(Wire::refuse);
    }

    pub(super) fn slow_down(&self, delay: Duration) {
        self.wire.iter().for_each(|wire| wire.slow_down(delay));
    }

    /// Splits the network; without a separate network, holds all bytes.
    pub(super) fn part(&self) {
        match &self.net {
            Some(net) => net.part(),
            None => self.hold(),
        }
    }

    pub(super) fn has_net(&self) -> bool {
        self.net.is_some()
    }

    pub(super) fn mend(&self) {
        self.wire.iter().for_each(Wire::open);
        self.net.iter().for_each(Net::rejoin);
    }
}
