//! DBOS for Rust beside provost, for `benches/peers`: one workflow whose steps start a program each, recorded in
//! Postgres.

use std::process::ExitCode;
use std::time::Instant;

use provost_dbos::dbos::{self, Config, DBOS};
use provost_store::postgres::cluster::{Cluster, USER};

use crate::measure::cpu_seconds;

/// Runs this many steps and prints their wall and CPU seconds; those of the database server are not in the CPU
/// time, because it goes on.
pub(crate) fn dbos_steps(count: &str) -> ExitCode {
    let Some(cluster) = Cluster::start() else {
        eprintln!("Postgres is not installed");
        return ExitCode::FAILURE;
    };
    let count: u32 = count.parse().expect("a number");
    let url = cluster.database();
    // The SDK needs the folder of the socket as the host.
    let database = url.split(['/', '?']).nth(3).expect("its name");
    let socket = cluster.folder().display().to_string().replace('/', "%2F");
    let address = format!("postgres://{USER}@{socket}:{}/{database}", cluster.port());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (wall, cpu) = runtime.block_on(async {
        let dbos =
            DBOS::new(Config { app_version: Some("bench".to_owned()), ..Config::new("tasks", &address) });
        let steps = dbos.register_workflow("steps", |count: u32| async move {
            for number in 0..count {
                let task = async || {
                    let status = tokio::process::Command::new("/bin/true").status().await;
                    Ok::<_, dbos::Error>(status.is_ok_and(|status| status.success()))
                };
                assert!(dbos::step(&format!("task {number}"), task).await?, "the program ran");
            }
            Ok::<_, dbos::Error>(count)
        });
        let steps = steps.expect("known");
        dbos.launch().await.expect("joined");
        let (begun, before) = (Instant::now(), cpu_seconds());
        let done = steps.run(count).await.expect("a result");
        let took = (begun.elapsed().as_secs_f64(), cpu_seconds() - before);
        assert_eq!(done, count);
        dbos.shutdown().await;
        took
    });
    println!("{wall} {cpu}");
    ExitCode::SUCCESS
}
