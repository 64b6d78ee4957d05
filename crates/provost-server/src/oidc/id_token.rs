//! Checks an ID token: its form, its signature, and what it says about provider, audience, time and sign-in.
//!
//! **Invariant:** no claim is read before the signature is verified.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::json::Object;
use super::keys::{Algorithm, Doubt, KeySet};

/// Longest token; a person can be in hundreds of groups.
const TOKEN_MAX: usize = 64 << 10;
/// How far the clocks of the provider and of this machine may be apart, in seconds.
const SKEW: u64 = 60;
/// Oldest token, in seconds: it was made for a code that was exchanged just now.
const AGE_MAX: u64 = 600;
/// Longest subject, by the specification.
const SUBJECT_MAX: usize = 255;

/// What the token must say.
pub(super) struct Expected<'e> {
    pub issuer: &'e str,
    pub client_id: &'e str,
    pub nonce: &'e str,
}

/// Why a token is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenFault {
    #[error("it is not a signed token: {0}")]
    Form(&'static str),
    #[error("it has the algorithm `{0}`, which provost does not accept")]
    Algorithm(String),
    #[error("the provider has no key for it")]
    UnknownKey,
    #[error("several keys of the provider fit it, and it does not say which one signed it")]
    SeveralKeys,
    #[error("its signature is wrong")]
    Signature,
    #[error("its claims cannot be read: {0}")]
    Claims(String),
    #[error("it is from another provider")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet; compare the clocks of this machine and of the provider")]
    TooEarly,
    #[error("it is older than 10 minutes; compare the clocks of this machine and of the provider")]
    TooOld,
    #[error("it is for another sign-in")]
    Nonce,
    #[error("it names no person")]
    Subject,
}

/// Checks a token and returns its claims. `now` is in seconds.
pub(super) fn check(
    token: &str,
    keys: &KeySet,
    expected: &Expected<'_>,
    now: u64,
) -> Result<Object, TokenFault> {
    if token.len() > TOKEN_MAX {
        return Err(TokenFault::Form("it is longer than 64 KiB"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenFault::Form("it has no signature"))?;
    let (header, payload) =
        message.split_once('.').ok_or(TokenFault::Form("it does not have three parts"))?;
    let decoded = |part: &str| {
        BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Form("a part is not base64url"))
    };
    let header =
        Object::read(&decoded(header)?).map_err(|_| TokenFault::Form("its header cannot be read"))?;
    let (signature, payload) = (decoded(signature)?, decoded(payload)?);
    verify(&header, keys, message, &signature)?;
    let claims = Object::read(&payload).map_err(TokenFault::Claims)?;
    is_for_us(&claims, expected)?;
    is_current(&claims, now)?;
    let is_subject =
        |sub: &str| !sub.trim().is_empty() && sub.len() <= SUBJECT_MAX && !sub.chars().any(char::is_control);
    match claims.text("sub").is_some_and(is_subject) {
        true => Ok(claims),
        false => Err(TokenFault::Subject),
    }
}

fn verify(header: &Object, keys: &KeySet, message: &str, signature: &[u8]) -> Result<(), TokenFault> {
    let name = header.text("alg").unwrap_or_default();
    let algorithm = Algorithm::read(name)
        .ok_or_else(|| TokenFault::Algorithm(name.chars().filter(|c| !c.is_control()).take(20).collect()))?;
    if header.get("crit").is_some() {
        return Err(TokenFault::Form("it needs an extension"));
    }
    // An access token, or a token for something else, names another type.
    if header
        .get("typ")
        .is_some_and(|kind| kind.as_str().is_none_or(|kind| !kind.eq_ignore_ascii_case("jwt")))
    {
        return Err(TokenFault::Form("it is a token of another type"));
    }
    let id = match header.get("kid") {
        None => None,
        Some(id) => Some(id.as_str().ok_or(TokenFault::Form("the name of its key is not a text"))?),
    };
    keys.check(algorithm, id, message.as_bytes(), signature).map_err(|doubt| match doubt {
        Doubt::UnknownKey => TokenFault::UnknownKey,
        Doubt::SeveralKeys => TokenFault::SeveralKeys,
        Doubt::Wrong => TokenFault::Signature,
    })
}

fn is_for_us(claims: &Object, expected: &Expected<'_>) -> Result<(), TokenFault> {
    if claims.text("iss") != Some(expected.issuer) {
        return Err(TokenFault::Issuer);
    }
    let audience = claims.texts("aud").unwrap_or_default();
    let party = claims.get("azp");
    let is_ours = party.is_some_and(|party| party.as_str() == Some(expected.client_id));
    // A token for several clients must say that it was made for this one.
    let is_party = if party.is_some() || audience.len() > 1 { is_ours } else { true };
    if !audience.contains(&expected.client_id) || !is_party {
        return Err(TokenFault::Audience);
    }
    match claims.text("nonce") == Some(expected.nonce) {
        true => Ok(()),
        false => Err(TokenFault::Nonce),
    }
}

fn is_current(claims: &Object, now: u64) -> Result<(), TokenFault> {
    let missing = |name: &str| TokenFault::Claims(format!("`{name}` is missing or is no time"));
    let expires = claims.seconds("exp").ok_or_else(|| missing("exp"))?;
    let issued = claims.seconds("iat").ok_or_else(|| missing("iat"))?;
    if expires.saturating_add(SKEW) <= now {
        return Err(TokenFault::Expired);
    }
    if issued > now.saturating_add(SKEW) {
        return Err(TokenFault::TooEarly);
    }
    if issued.saturating_add(AGE_MAX + SKEW) < now {
        return Err(TokenFault::TooOld);
    }
    match claims.get("nbf") {
        None => Ok(()),
        Some(_) => match claims.seconds("nbf").ok_or_else(|| missing("nbf"))? <= now.saturating_add(SKEW) {
            true => Ok(()),
            false => Err(TokenFault::TooEarly),
        },
    }
}
