//! Reads the discovery document of a provider.
//!
//! **Invariant:** the document is about the configured issuer, and every address in it has TLS. Only a provider
//! on this machine may use plain addresses, and only of this machine.

use super::json::Object;

/// The addresses and abilities of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    pub userinfo_endpoint: Option<String>,
    pub end_session_endpoint: Option<String>,
    /// The client sends its secret in the form, not in a header.
    pub secret_in_form: bool,
    /// The provider says in each answer which provider it is.
    pub names_itself: bool,
}

/// Returns the address of the document of an issuer.
pub(super) fn place(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

/// Reads the document of `issuer`.
pub(super) fn read(bytes: &[u8], issuer: &str) -> Result<Metadata, String> {
    let document = Object::read(bytes)?;
    let own = document.text("issuer").unwrap_or_default();
    if own != issuer {
        return Err(format!("it calls itself `{own}`; `issuer` under [serve.oidc] must be exactly that"));
    }
    let is_here = is_loopback(issuer);
    let checked = |name: &str, url: &str| {
        let has_tls = url.starts_with("https://") || is_here && is_loopback(url);
        match !has_tls || url.contains('#') || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            true => Err(format!("`{name}` is no address over TLS")),
            false => Ok(url.to_owned()),
        }
    };
    let needed = |name: &str| match document.text(name) {
        Some(url) => checked(name, url),
        None => Err(format!("its document has no `{name}`")),
    };
    let optional = |name: &str| document.text(name).map(|url| checked(name, url)).transpose();
    let lists = |name: &str, word: &str| document.texts(name).map(|all| all.contains(&word));
    if lists("response_types_supported", "code") == Some(false) {
        return Err("it does not offer the authorization code flow".to_owned());
    }
    if lists("code_challenge_methods_supported", "S256") == Some(false) {
        return Err("it does not offer PKCE with S256".to_owned());
    }
    let methods = "token_endpoint_auth_methods_supported";
    Ok(Metadata {
        issuer: issuer.to_owned(),
        authorization_endpoint: needed("authorization_endpoint")?,
        token_endpoint: needed("token_endpoint")?,
        jwks_uri: needed("jwks_uri")?,
        userinfo_endpoint: optional("userinfo_endpoint")?,
        end_session_endpoint: optional("end_session_endpoint")?,
        // Without a list, the header is the rule.
        secret_in_form: lists(methods, "client_secret_basic") == Some(false)
            && lists(methods, "client_secret_post") == Some(true),
        names_itself: document.is_true("authorization_response_iss_parameter_supported"),
    })
}

/// Returns whether an address is plain and of this machine.
fn is_loopback(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    !authority.contains('@')
        && (host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()))
}
