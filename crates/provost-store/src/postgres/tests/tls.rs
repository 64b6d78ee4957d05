//! Tests connections over TLS, to a server that accepts no others over the network.

use super::super::cluster::{Cluster, PASSWORD, USER};
use super::super::*;
use super::trouble::{refused, with_password};
use crate::suite;

#[test]
fn the_certificate_is_verified_as_far_as_it_was_asked_for() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.database();
    let authority = cluster.use_tls();

    let url = |host: &str, rest: &str| {
        let url = format!("postgres://{USER}@{host}:{}/log_0?{rest}", cluster.port());
        with_password(&url, PASSWORD)
    };
    let verified = format!("sslmode=verify-full&sslrootcert={}", authority.display());
    let log = Postgres::open(&url("localhost", &verified)).expect("verified");
    suite::append_steps(&log, "a", 1);
    Postgres::open(&url("localhost", "sslmode=require")).expect("not verified, and asked for that");
    for (host, rest) in [("localhost", "sslmode=verify-full"), ("127.0.0.1", verified.as_str())] {
        let error = refused(&url(host, rest));
        assert!(matches!(error, Error::Untrusted { .. }), "{host} {rest}: {error:?}");
    }
    let error = refused(&url("localhost", "sslmode=disable"));
    assert!(matches!(&error, Error::NotLetIn { said, .. } if said.contains("no encryption")), "{error:?}");
}
