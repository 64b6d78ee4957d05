//! Tests the sign-in: tokens that are forged or stale, keys that change, and a whole flow with a provider that
//! answers from a table. `crates/provost/tests/it/serve/oidc.rs` has a real provider.

mod flow;
mod tokens;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example";
/// Time of the tests, in seconds.
const NOW: u64 = 1_700_000_100;

/// A key of a provider.
enum Signer {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Signer::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key"))
    }

    fn p256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Signer::P256(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("a key"))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Ed25519(_) => "EdDSA",
            Signer::P256(_) => "ES256",
        }
    }

    /// Returns the public key as a JSON Web Key.
    fn public(&self, id: &str) -> Value {
        match self {
            Signer::Ed25519(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": BASE64.encode(key.public_key()) })
            }
            Signer::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y })
            }
        }
    }

    fn sign(&self, message: &str) -> Vec<u8> {
        match self {
            Signer::Ed25519(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
            Signer::P256(key) => {
                key.sign(&SystemRandom::new(), message.as_bytes()).expect("signed").as_ref().to_vec()
            }
        }
    }

    /// Returns a token with this header and these claims, as texts of JSON.
    fn token(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        format!("{message}.{}", BASE64.encode(self.sign(&message)))
    }
}

/// Returns the claims of a valid token with some changed; `null` takes one out.
fn claims(changed: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "provost", "sub": "1", "nonce": "n-1", "iat": NOW - 100, "exp": NOW + 3500,
    });
    for (name, value) in changed.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    claims.as_object_mut().expect("claims").retain(|_, value| !value.is_null());
    claims
}
