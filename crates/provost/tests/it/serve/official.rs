//! Tests the server with programs that know only its protocols: the MCP client of the Python SDK, and
//! schemathesis, which sends valid and invalid requests derived from the OpenAPI document.

use std::path::Path;
use std::process::Command;

use super::{Server, token, verified};
use crate::env::own_checks;
use crate::registry::{installed, python_package};

fn from_pypi(name: &str, proof: &str, package: &str) -> Result<std::path::PathBuf, String> {
    installed(name, proof, |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(folder)
            .arg(package);
        pip
    })
}

#[test]
fn the_python_client_works_on_a_plan_of_its_own_over_http() {
    let folder = match from_pypi("mcp-python", "mcp", "mcp") {
        Ok(folder) => folder,
        Err(why) => return python_package("mcp", &why),
    };
    let env = verified();
    env.write("provost.toml", own_checks(&env.read("provost.toml")));
    let server = Server::start(&env);
    let agent = token(&env, "agent");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/over_http.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(format!("http://{}/mcp", server.address))
        .arg(&agent)
        .current_dir(env.work())
        .env("PYTHONPATH", folder)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().map(|line| line.split(" (").next().unwrap_or_default()).collect();
    assert_eq!(
        lines,
        [
            "tools 9",
            "plan_create ok Plan write-it is made",
            "plan_show ok Plan write-it: Write it",
            "plan_show refused there is no plan in this session yet: call plan_create first, with an objective, steps and a check for each; or plan_take, to carry out a plan that is there",
            "step_update refused Step 1 is NOT done: its check broke: exit code 1",
            "step_update ok Step 1 has passed: its check held",
        ]
    );
    // The token gives access only to MCP, and no other token does.
    server.get("/api/plans", &agent).is(403);
    server.get("/mcp", &token(&env, "decide")).is(403);
    server.bare("POST", "/mcp", &[], "{}").is(401);
}

#[test]
fn schemathesis_finds_no_fault_with_the_api() {
    let folder = match from_pypi("schemathesis", "schemathesis", "schemathesis") {
        Ok(folder) => folder,
        Err(why) => return python_package("schemathesis", &why),
    };
    let env = verified();
    let server = Server::start(&env);
    // A text can be valid by the document and still not be a plan.
    let configuration = "[checks.positive_data_acceptance]\nexpected-statuses = \
                         [\"2xx\", \"3xx\", \"401\", \"403\", \"404\", \"409\", \"422\", \"429\"]\n";
    std::fs::write(env.folder().join("schemathesis.toml"), configuration).expect("a file");
    let examples = if std::env::var_os("PROVOST_FULL").is_some() { "60" } else { "8" };
    let output = Command::new("python3")
        .args(["-m", "schemathesis.cli", "run", "--no-color", "--max-examples", examples])
        // A stream does not end, so it is left out.
        .args(["--exclude-path", "/api/events", "--suppress-health-check", "all"])
        .args(["--seed", "1", "--request-timeout", "30", "--warnings", "off"])
        .args(["-H", &format!("Authorization: Bearer {}", token(&env, "decide"))])
        .arg(format!("http://{}/api/openapi.json", server.address))
        .current_dir(env.folder())
        .env("PYTHONPATH", &folder)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
