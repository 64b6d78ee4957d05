//! Tests connections over TLS, to a server that accepts no others over the network.

use std::fs;
use std::process::Command;

use super::super::cluster::{Cluster, PASSWORD, USER};
use super::super::*;
use super::trouble::{refused, with_password};
use crate::suite;

const CERTIFICATES: &str = r#"
    new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    openssl req -x509 $new -keyout ca.key -out ca.crt -subj /CN=authority -days 30 &&
    openssl req $new -keyout server.key -out server.csr -subj /CN=localhost &&
    echo subjectAltName=DNS:localhost > names &&
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.crt &&
    chmod 600 server.key && chown --reference=. server.key server.crt
"#;

#[test]
fn the_certificate_is_verified_as_far_as_it_was_asked_for() {
    let Some(cluster) = Cluster::start() else { return };
    let made =
        Command::new("sh").args(["-c", CERTIFICATES]).current_dir(cluster.folder()).output().expect("sh");
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    cluster.database();
    cluster.stop();
    let at = cluster.folder().display();
    let data = cluster.folder().join("data");
    let settings = fs::read_to_string(data.join("postgresql.conf")).expect("settings");
    let tls = format!("ssl = on\nssl_cert_file = '{at}/server.crt'\nssl_key_file = '{at}/server.key'\n");
    fs::write(data.join("postgresql.conf"), settings + &tls).expect("settings");
    let doors = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    fs::write(data.join("pg_hba.conf"), doors).expect("who is let in how");
    cluster.run();

    let url = |host: &str, rest: &str| {
        let url = format!("postgres://{USER}@{host}:{}/log_0?{rest}", cluster.port());
        with_password(&url, PASSWORD)
    };
    let verified = format!("sslmode=verify-full&sslrootcert={at}/ca.crt");
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
