//! Names of people in the log.
//!
//! provost knows a person who signed in at an identity provider by the provider and the account there, never by
//! the e-mail address: a person can get another address, and another person can get theirs. The name in the log has
//! the address, for people to read, and a digest of provider and account, which decides.

use super::hash::Hash;

/// Stands before the digest of an account.
const ACCOUNT: &str = " (oidc:";
/// Hexadecimal digits of the digest.
const DIGITS: usize = 16;

/// Returns the name of a person who signed in: `alice@example.com (oidc:1f2e3d4c5b6a7988)`.
pub fn signed_in(shown: &str, issuer: &str, subject: &str) -> String {
    // The length keeps issuer and subject apart.
    let digest = Hash::of(format!("{} {issuer} {subject}", issuer.len()).as_bytes()).to_string();
    format!("{shown}{ACCOUNT}{})", &digest[..DIGITS])
}

/// Returns the digest of the account, if the name has one.
pub fn account(name: &str) -> Option<&str> {
    let (_, digest) = name.trim_end().strip_suffix(')')?.rsplit_once(ACCOUNT)?;
    let is_digest = digest.len() == DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some(digest)
}

/// Returns the name without the digest of an account, for a place where all names are of one person.
pub fn short(name: &str) -> &str {
    match account(name) {
        Some(_) => name.rsplit_once(ACCOUNT).map_or(name, |(shown, _)| shown),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{account, short, signed_in};

    #[test]
    fn provider_and_account_decide_and_the_address_does_not() {
        let alice = signed_in("alice@example.com", "https://a.example", "1");
        assert_eq!(account(&alice), account(&signed_in("new@example.com", "https://a.example", "1")));
        for (issuer, subject) in
            [("https://a.example", "2"), ("https://b.example", "1"), ("https://a.example 1", "")]
        {
            assert_ne!(account(&alice), account(&signed_in("alice@example.com", issuer, subject)));
        }
        assert_eq!(short(&alice), "alice@example.com");
    }

    #[test]
    fn other_names_have_no_account() {
        for name in ["ada", "ada (oidc:)", "ada (oidc:zzzzzzzzzzzzzzzz)", "ada (oidc:1f2e3d4c5b6a7988) b", ""]
        {
            assert_eq!((account(name), short(name)), (None, name));
        }
    }
}
