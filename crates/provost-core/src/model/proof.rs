//! Signed proofs of what was judged and how, which can be checked without the log.
//!
//! The statement is an in-toto Statement v1, the envelope is DSSE, the signature is Ed25519. Anyone with the
//! public key and a JSON parser can check a proof.
//!
//! **Invariant:** the signed bytes are the payload bytes of the envelope; the payload is parsed only after
//! its signature was verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::chain;
use crate::model::hash::Hash;

pub mod ssh;

pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The type of a signed event hash; no statement has it.
const EVENT_TYPE: &str = "application/vnd.provost.event-hash";
/// The predicate type of provost's statements.
pub const PREDICATE_TYPE: &str = "urn:provost:verdict:v1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofStatement {
    #[serde(rename = "_type")]
    pub kind: String,
    pub subject: Vec<ProofSubject>,
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    pub predicate: Value,
}

/// An artifact the statement is about, with its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofSubject {
    pub name: String,
    pub digest: Digest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// Git id of a commit.
    #[serde(default, rename = "gitCommit", skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    /// Git id of a tree.
    #[serde(default, rename = "gitTree", skip_serializing_if = "String::is_empty")]
    pub git_tree: String,
}

impl ProofStatement {
    pub fn new(subject: Vec<ProofSubject>, predicate: Value) -> Self {
        Self {
            kind: STATEMENT_TYPE.to_owned(),
            subject,
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate,
        }
    }
}

impl ProofSubject {
    pub fn new(name: &str, sha256: impl Into<String>) -> Self {
        Self { name: name.to_owned(), digest: Digest { sha256: sha256.into(), ..Digest::default() } }
    }

    pub fn commit(id: &str) -> Self {
        Self { name: "commit".to_owned(), digest: Digest { git_commit: id.to_owned(), ..Digest::default() } }
    }

    pub fn git_tree(id: &str) -> Self {
        Self { name: "tree".to_owned(), digest: Digest { git_tree: id.to_owned(), ..Digest::default() } }
    }
}

/// A DSSE envelope: payload and signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    pub payload_type: String,
    pub payload: String,
    pub signatures: Vec<SignedProof>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedProof {
    /// A hint at the key; nothing depends on it.
    pub keyid: String,
    pub sig: String,
}

/// The reason why an envelope proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Doubt {
    #[error("this is not an envelope")]
    NotAnEnvelope(#[source] serde_json::Error),
    #[error("the envelope holds `{found}`, not an in-toto statement")]
    OtherPayload { found: String },
    #[error("the {what} is not canonical base64")]
    NotBase64 { what: &'static str },
    #[error("no signature of this key is valid")]
    NotSigned,
    #[error("the payload is not a statement")]
    NotAStatement(#[source] serde_json::Error),
    #[error("the statement has the type `{found}`, which provost does not read")]
    OtherStatement { found: String },
    #[error("this is not a public key; expected 64 hexadecimal digits or a line `ssh-ed25519 …`")]
    NotAKey,
    #[error("this is not an OpenSSH Ed25519 key")]
    NotAnSshKey,
    #[error("the key has a passphrase, and provost cannot ask for it; use a key without one")]
    Locked,
}

/// provost's own key, made from 32 random bytes.
pub struct ProofKey(SigningKey);

impl ProofKey {
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Adds this key's signature to an envelope.
    pub fn also_seal(&self, envelope: &mut Envelope) {
        let Ok(payload) = decoded(&envelope.payload, "payload") else { return };
        let signature = self.0.sign(&pre_authentication(&envelope.payload_type, &payload));
        let sig = STANDARD.encode(signature.to_bytes());
        envelope.signatures.push(SignedProof { keyid: self.public().id(), sig });
    }

    /// Signs the hash of an event of a log, which fixes every event before it.
    pub fn sign_event(&self, hash: &Hash) -> [u8; 64] {
        self.0.sign(&pre_authentication(EVENT_TYPE, &hash.0)).to_bytes()
    }

    pub fn seal(&self, statement: &ProofStatement) -> Envelope {
        let payload = chain::sorted(serde_json::to_value(statement).unwrap_or_default()).to_string();
        let signature = self.0.sign(&pre_authentication(PAYLOAD_TYPE, payload.as_bytes()));
        Envelope {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(payload),
            signatures: vec![SignedProof {
                keyid: self.public().id(),
                sig: STANDARD.encode(signature.to_bytes()),
            }],
        }
    }
}

/// A public key, shown as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    pub fn read(text: &str) -> Result<Self, Doubt> {
        let text = text.trim();
        if text.starts_with("ssh-") {
            return ssh::public(text);
        }
        let byte =
            |at: usize| text.get(at * 2..at * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Doubt::NotAKey);
        }
        let mut bytes = [0; 32];
        for (at, slot) in bytes.iter_mut().enumerate() {
            *slot = byte(at).ok_or(Doubt::NotAKey)?;
        }
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| Doubt::NotAKey)
    }

    pub fn id(&self) -> String {
        Hash::of(self.0.as_bytes()).to_string()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        VerifyingKey::from_bytes(bytes.try_into().ok()?).map(Self).ok()
    }

    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Returns whether this key signed the hash of an event.
    pub fn signed_event(&self, hash: &Hash, signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature).ok();
        let message = pre_authentication(EVENT_TYPE, &hash.0);
        signature.is_some_and(|signature| self.0.verify_strict(&message, &signature).is_ok())
    }

    /// Returns the statement if this key signed it.
    pub fn open(&self, envelope: &Envelope) -> Result<ProofStatement, Doubt> {
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(Doubt::OtherPayload { found: envelope.payload_type.clone() });
        }
        let payload = decoded(&envelope.payload, "payload")?;
        let message = pre_authentication(&envelope.payload_type, &payload);
        let good = envelope.signatures.iter().any(|signed| {
            let bytes = decoded(&signed.sig, "signature").ok();
            let signature = bytes.and_then(|bytes| Signature::from_slice(&bytes).ok());
            signature.is_some_and(|signature| self.0.verify_strict(&message, &signature).is_ok())
        });
        if !good {
            return Err(Doubt::NotSigned);
        }
        let statement: ProofStatement = serde_json::from_slice(&payload).map_err(Doubt::NotAStatement)?;
        if statement.kind != STATEMENT_TYPE || statement.predicate_type != PREDICATE_TYPE {
            let found = format!("{} / {}", statement.kind, statement.predicate_type);
            return Err(Doubt::OtherStatement { found });
        }
        Ok(statement)
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&Hash(self.0.to_bytes()), f)
    }
}

impl Envelope {
    pub fn read(text: &str) -> Result<Self, Doubt> {
        serde_json::from_str(text).map_err(Doubt::NotAnEnvelope)
    }
}

/// Returns the bytes that DSSE signs. Lengths are included, so that no part can be taken for another.
fn pre_authentication(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

fn decoded(text: &str, what: &'static str) -> Result<Vec<u8>, Doubt> {
    let bytes = STANDARD.decode(text).map_err(|_| Doubt::NotBase64 { what })?;
    // Reject alternative base64 spellings of the same payload.
    if STANDARD.encode(&bytes) == text { Ok(bytes) } else { Err(Doubt::NotBase64 { what }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> (ProofKey, Envelope) {
        let key = ProofKey::new(&[7; 32]);
        let statement = ProofStatement::new(
            vec![ProofSubject::new("tree", "ab".repeat(32))],
            serde_json::json!({ "step": 1, "verdict": "held", "ünï": "cödé" }),
        );
        let envelope = key.seal(&statement);
        (key, envelope)
    }

    #[test]
    fn what_was_sealed_can_be_opened_with_the_public_key_alone() {
        let (key, envelope) = sealed();
        let public = PublicKey::read(&key.public().to_string()).unwrap();
        let text = serde_json::to_string(&envelope).unwrap();
        let statement = public.open(&Envelope::read(&text).unwrap()).unwrap();
        assert_eq!(statement.predicate["verdict"], "held");
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (key, envelope) = sealed();
        let public = key.public();
        let changes: [fn(&mut Envelope); 6] = [
            |e| e.payload = STANDARD.encode(b"{}"),
            |e| e.payload_type = "text/plain".to_owned(),
            |e| e.signatures.clear(),
            |e| e.signatures[0].sig = STANDARD.encode([0; 64]),
            |e| e.payload.push('='),
            |e| e.payload.insert(4, '\n'),
        ];
        for change in changes {
            let mut bad = envelope.clone();
            change(&mut bad);
            assert!(public.open(&bad).is_err(), "{bad:?}");
        }
        assert!(ProofKey::new(&[8; 32]).public().open(&envelope).is_err());
        // The key's name is a hint and decides nothing.
        let mut renamed = envelope;
        renamed.signatures[0].keyid = "somebody else".to_owned();
        assert!(public.open(&renamed).is_ok());
    }

    #[test]
    fn a_key_is_read_only_in_its_one_form() {
        for bad in ["", "zz", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert!(PublicKey::read(bad).is_err(), "{bad}");
        }
    }
}
