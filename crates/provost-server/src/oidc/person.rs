//! Finds out who signed in, and which rule is about them.
//!
//! **Invariant:** an e-mail address counts only if the provider says that it has verified it, in the same
//! document that has the address.
//! **Invariant:** the name of a person has a digest of provider and account, unless a rule gives a name.

use provost_core::model::person;
use provost_engine::SignInMatch;
use provost_engine::manage::sign_in::GrantRule;
use provost_engine::manage::tokens::TokenGrant;

use super::Fault;
use super::json::Object;

/// Longest e-mail address.
const EMAIL_MAX: usize = 254;

pub(super) struct Rules {
    pub issuer: String,
    pub groups_claim: String,
    /// The first one that matches decides.
    pub rules: Vec<GrantRule>,
}

/// What the provider says about a person.
#[derive(Debug)]
pub(super) struct Claims {
    subject: String,
    /// The document has an address, verified or not.
    has_email: bool,
    /// The verified address.
    email: Option<String>,
    groups: Option<Vec<String>>,
}

impl Claims {
    /// Reads the claims of a checked ID token.
    pub(super) fn of_token(token: &Object, rules: &Rules) -> Self {
        let subject = token.text("sub").unwrap_or_default().to_owned();
        let mut claims = Self { subject, has_email: false, email: None, groups: None };
        claims.read(token, rules);
        claims
    }

    /// Returns whether a rule, or the name of the person, needs a claim that is not there yet.
    pub(super) fn lacks(&self, rules: &Rules) -> bool {
        let by_group = rules.rules.iter().any(|rule| matches!(rule.whom, SignInMatch::Group(_)));
        !self.has_email || by_group && self.groups.is_none()
    }

    /// Adds what is missing from the user info, which must be about the same person.
    pub(super) fn add(&mut self, info: &Object, rules: &Rules) -> Result<(), Fault> {
        if info.text("sub") != Some(&self.subject) {
            return Err(Fault::Provider("its user info is about another person".to_owned()));
        }
        self.read(info, rules);
        Ok(())
    }

    fn read(&mut self, from: &Object, rules: &Rules) {
        if !self.has_email {
            self.has_email = from.get("email").is_some();
            let email = from.text("email").filter(|_| from.is_true("email_verified"));
            self.email = email.filter(|email| is_address(email)).map(str::to_owned);
        }
        if self.groups.is_none() {
            let groups = from.texts(&rules.groups_claim);
            self.groups = groups.map(|all| all.into_iter().map(str::to_owned).collect());
        }
    }

    /// Returns how people know this person: the verified address, or the account.
    pub(super) fn shown(&self) -> String {
        self.email.clone().unwrap_or_else(|| self.subject.clone())
    }
}

fn is_address(email: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_whole = |(local, domain): (&str, &str)| !local.is_empty() && !domain.is_empty();
    email.len() <= EMAIL_MAX && !email.contains(is_odd) && email.rsplit_once('@').is_some_and(is_whole)
}

impl Rules {
    /// Returns what the person may do; `None` if no rule is about them.
    pub(super) fn grant(&self, claims: &Claims) -> Option<TokenGrant> {
        let rule = self.rules.iter().find(|rule| is_about(&rule.whom, claims))?;
        let own = || person::signed_in(&claims.shown(), &self.issuer, &claims.subject);
        Some(TokenGrant {
            scope: rule.scope,
            name: rule.name.clone().unwrap_or_else(own),
            repositories: rule.repositories.clone(),
        })
    }
}

fn is_about(whom: &SignInMatch, claims: &Claims) -> bool {
    match whom {
        // Providers differ in the case that they keep.
        SignInMatch::Email(email) => claims.email.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(email)),
        SignInMatch::Domain(domain) => {
            let own = claims.email.as_ref().and_then(|email| email.rsplit_once('@'));
            own.is_some_and(|(_, own)| own.eq_ignore_ascii_case(domain))
        }
        SignInMatch::Group(group) => claims.groups.as_ref().is_some_and(|all| all.contains(group)),
    }
}
