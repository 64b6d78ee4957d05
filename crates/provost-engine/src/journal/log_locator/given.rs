//! The address of a Postgres log and its password, as the environment gives them. For containers and services,
//! whose state folder is new at each start and whose secrets are files.
//!
//! A new state folder keeps the address that it is given first. Later it must be given the same database or none:
//! another one could have a forged approval.
//!
//! **Invariant:** a password is read only from a file, and is not written down.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use super::{file, same};
use crate::Error;

/// The address, without a password.
const ADDRESS: &str = "PROVOST_DATABASE_URL";
/// A file with the address, which may contain a password.
const ADDRESS_FILE: &str = "PROVOST_DATABASE_URL_FILE";
/// A file with the password.
const PASSWORD_FILE: &str = "PROVOST_DATABASE_PASSWORD_FILE";

type Variables = Vec<(OsString, OsString)>;

/// An address, and a password that was found in its file or in another.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub address: Option<String>,
    pub password: Option<OsString>,
    /// The variables that name files with credentials.
    pub files: Variables,
}

/// Takes the variables out of the agents' environment, and reads the files that they name.
pub(super) fn take(environment: &mut Variables) -> Result<Given, Error> {
    let mut taken = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        environment.retain(|(name, _)| name != wanted);
        found.filter(|value| !value.is_empty())
    };
    let (address, address_file, password_file) = (taken(ADDRESS), taken(ADDRESS_FILE), taken(PASSWORD_FILE));
    let named = [(ADDRESS_FILE, &address_file), (PASSWORD_FILE, &password_file)];
    let files = named.into_iter().filter_map(|(name, file)| Some((name.into(), file.clone()?))).collect();
    let mut given = match (address, address_file) {
        (None, None) => Given::default(),
        (Some(_), Some(_)) => return Err(wrong(ADDRESS_FILE, format!("{ADDRESS} is set too"))),
        (Some(address), None) => {
            let address = address.into_string().map_err(|_| wrong(ADDRESS, "it is not UTF-8".to_owned()))?;
            if split(&address).1.is_some() {
                let why =
                    format!("it contains a password; write the address to a file and set {ADDRESS_FILE}");
                return Err(wrong(ADDRESS, why));
            }
            Given { address: Some(address), ..Given::default() }
        }
        (None, Some(path)) => {
            let (address, password) = split(&read(ADDRESS_FILE, &path)?);
            Given { address: Some(address), password: password.map(OsString::from), ..Given::default() }
        }
    };
    if let Some(path) = password_file {
        given.password = Some(read(PASSWORD_FILE, &path)?.into());
    }
    Ok(Given { files, ..given })
}

/// Writes the address into a new state folder. Refuses if the folder has a log of its own or another address.
pub(super) fn settle(state: &Path, kept: Option<&str>, given: &str) -> Result<(), Error> {
    let other = |here: String| Error::OtherDatabase { given: given.to_owned(), here };
    match kept {
        Some(kept) if kept == given => return Ok(()),
        Some(kept) if !same(kept, given) => return Err(other(kept.to_owned())),
        None if state.join("log.db").exists() => return Err(other("its own SQLite log".to_owned())),
        // How the server is verified may have changed.
        Some(_) | None => {}
    }
    point_to(state, given)
}

/// Writes where the log is.
pub(crate) fn point_to(state: &Path, url: &str) -> Result<(), Error> {
    let path = file(state);
    let written = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = fs::File::create(&new)?;
        writeln!(file, "{url}")?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    written().map_err(|source| Error::Io { what: "write where the log is to", path: path.clone(), source })
}

fn read(variable: &'static str, path: &OsStr) -> Result<String, Error> {
    let text = fs::read_to_string(path)
        .map_err(|error| wrong(variable, format!("cannot read {}: {error}", Path::new(path).display())))?;
    match text.trim() {
        "" => Err(wrong(variable, format!("{} is empty", Path::new(path).display()))),
        text => Ok(text.to_owned()),
    }
}

fn wrong(variable: &'static str, why: String) -> Error {
    Error::DatabaseVariable { variable, why }
}

/// Splits an address into the address without a password, and the password.
fn split(url: &str) -> (String, Option<String>) {
    let whole = || (url.to_owned(), None);
    let Some((scheme, rest)) = url.split_once("://") else { return whole() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else { return whole() };
    let Some((user, password)) = user.split_once(':') else { return whole() };
    (format!("{scheme}://{user}@{host}{path}"), Some(decoded(password)))
}

/// Decodes `%20` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::{settle, split, take};
    use crate::Error;

    #[test]
    fn a_password_is_taken_out_of_an_address() {
        for (url, address, password) in [
            ("postgres://ada@h/d", "postgres://ada@h/d", None),
            (
                "postgres://ada:s%40cr%3At@h:5/d?sslmode=require",
                "postgres://ada@h:5/d?sslmode=require",
                Some("s@cr:t"),
            ),
            ("postgres://ada:100%@h", "postgres://ada@h", Some("100%")),
            ("postgres://h/d?host=/run/a:b@c", "postgres://h/d?host=/run/a:b@c", None),
            ("nonsense", "nonsense", None),
        ] {
            assert_eq!(split(url), (address.to_owned(), password.map(str::to_owned)), "{url}");
        }
    }

    #[test]
    fn agents_get_none_of_the_variables_and_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (url, password) = (folder.path().join("url"), folder.path().join("password"));
        fs::write(&url, "postgres://ada:first@h/d\n").unwrap();
        fs::write(&password, "second\n").unwrap();
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), "/bin".into()),
            ("PROVOST_DATABASE_URL".into(), "".into()),
            ("PROVOST_DATABASE_URL_FILE".into(), url.clone().into()),
        ];
        let given = take(&mut environment).unwrap();
        assert_eq!(given.address.as_deref(), Some("postgres://ada@h/d"));
        assert_eq!(given.password, Some("first".into()));
        assert_eq!(given.files, [("PROVOST_DATABASE_URL_FILE".into(), url.clone().into())]);
        assert_eq!(environment, [("PATH".into(), "/bin".into())]);
        environment.push(("PROVOST_DATABASE_URL_FILE".into(), url.into()));
        environment.push(("PROVOST_DATABASE_PASSWORD_FILE".into(), password.into()));
        assert_eq!(take(&mut environment).unwrap().password, Some("second".into()));
        let refused = |name: &str, value: &str| {
            let mut environment = vec![(name.into(), value.into())];
            take(&mut environment).unwrap_err().to_string()
        };
        assert!(
            refused("PROVOST_DATABASE_URL", "postgres://ada:x@h/d").contains("PROVOST_DATABASE_URL_FILE")
        );
        assert!(refused("PROVOST_DATABASE_URL_FILE", "/nowhere").contains("cannot read /nowhere"));
    }

    #[test]
    fn a_state_folder_keeps_its_first_database() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        settle(&state, None, "postgres://ada@h/d").unwrap();
        let kept = || fs::read_to_string(state.join("log.url")).unwrap().trim().to_owned();
        assert_eq!(kept(), "postgres://ada@h/d");
        let refused = settle(&state, Some(&kept()), "postgres://ada@h/other").unwrap_err();
        assert!(matches!(refused, Error::OtherDatabase { .. }), "{refused}");
        fs::remove_file(state.join("log.url")).unwrap();
        fs::write(state.join("log.db"), "").unwrap();
        let refused = settle(&state, None, "postgres://ada@h/d").unwrap_err();
        assert!(refused.to_string().contains("its own SQLite log"), "{refused}");
    }
}
