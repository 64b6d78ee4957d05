//! Loads the certificates of the authorities that provost trusts when it connects over TLS. The meter,
//! webhooks and collectors all use it.

use std::ffi::OsString;
use std::path::PathBuf;

use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Source of the trusted certificates; without a file and a folder, it is the system.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustRoots {
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
}

impl TrustRoots {
    /// Uses `SSL_CERT_FILE` and `SSL_CERT_DIR` instead of the system's certificates, if one of them is set.
    pub(crate) fn from_environment(environment: &[(OsString, OsString)]) -> Self {
        let path = |name: &str| {
            let found = environment.iter().find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| PathBuf::from(value))
        };
        Self { file: path("SSL_CERT_FILE"), folder: path("SSL_CERT_DIR") }
    }

    /// Uses only the certificates of this file.
    pub(crate) fn from_file(file: PathBuf) -> Self {
        Self { file: Some(file), folder: None }
    }

    /// Returns at least one certificate, or why there is none.
    pub(crate) fn load(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found = match (self.file.as_deref(), self.folder.as_deref()) {
            (None, None) => rustls_native_certs::load_native_certs(),
            (file, folder) => rustls_native_certs::load_certs_from_paths(file, folder),
        };
        if !found.certs.is_empty() {
            return Ok(found.certs);
        }
        let paths: Vec<String> =
            self.file.iter().chain(&self.folder).map(|path| path.display().to_string()).collect();
        match (paths.is_empty(), found.errors.first()) {
            (true, _) => {
                Err("this system has no certificates of authorities: install `ca-certificates`, or \
                              set SSL_CERT_FILE"
                    .to_owned())
            }
            (false, Some(error)) => {
                Err(format!("no certificate can be read from {}: {error}", paths.join(", ")))
            }
            (false, None) => Err(format!("there is no certificate in {}", paths.join(", "))),
        }
    }

    /// Returns the settings for a request to this address. A plain address needs no certificates.
    pub(crate) fn for_request(&self, url: &str) -> Result<TlsConfig, String> {
        let is_plain = url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let certificates = if is_plain { Vec::new() } else { self.load()? };
        let owned = certificates.iter().map(|each| Certificate::from_der(each).to_owned());
        Ok(TlsConfig::builder().root_certs(RootCerts::from(owned.collect::<Vec<_>>())).build())
    }
}

#[cfg(test)]
mod tests {
    use super::TrustRoots;

    #[test]
    fn a_file_without_certificates_is_named_and_not_replaced_by_the_system() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").expect("a file");
        for (name, path) in [
            ("SSL_CERT_FILE", empty),
            ("SSL_CERT_FILE", folder.path().join("gone.pem")),
            ("SSL_CERT_DIR", folder.path().to_owned()),
        ] {
            let roots = TrustRoots::from_environment(&[(name.into(), path.clone().into())]);
            let why = roots.load().expect_err("no certificate");
            assert!(why.contains(&path.display().to_string()), "{why}");
            assert!(roots.for_request("https://a").is_err());
            assert!(roots.for_request("http://localhost").is_ok());
        }
    }
}
