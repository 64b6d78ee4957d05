//! The file that says where the server of a state folder listens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::Error;

/// File that says where the server listens, for self-tests and for processes that need a link to it.
pub struct ServerAddressFile(PathBuf);

impl ServerAddressFile {
    pub fn at(state: &Path, address: SocketAddr, link: &str) -> Result<Self, Error> {
        let path = file(state);
        let io =
            |source| Error::Io { what: "write where the server listens, in", path: path.clone(), source };
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io)?;
        let text = format!("{address}\n{}\n{link}\n", std::process::id());
        provost_host::files::write_whole(&path, text.as_bytes()).map_err(io)?;
        Ok(Self(path))
    }
}

impl Drop for ServerAddressFile {
    fn drop(&mut self) {
        // Another server may have started after this one.
        let own = format!("\n{}\n", std::process::id());
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text.contains(&own)) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Returns the start of a link to the running server, if one is running.
pub fn link_to_running(state: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file(state)).ok()?;
    let mut lines = text.lines().skip(1);
    let pid: u32 = lines.next()?.parse().ok()?;
    std::path::Path::new(&format!("/proc/{pid}")).exists().then(|| lines.next().map(str::to_owned))?
}

/// Returns the address of the running server, if one is running.
pub fn running(state: &Path) -> Option<String> {
    link_to_running(state)?.split_once("/enter").map(|(address, _)| address.to_owned())
}

fn file(state: &Path) -> PathBuf {
    state.join("serve").join("listening")
}
