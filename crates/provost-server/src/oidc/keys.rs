//! The public keys of a provider, and the signatures that provost accepts.
//!
//! **Invariant:** the key decides which algorithms are possible, never the token alone: a public key is not the
//! secret of an HMAC, and there is no algorithm `none`.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;

use super::json::Object;

/// Most keys of a provider.
const KEYS_MAX: usize = 100;

/// An algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    Ed25519,
}

impl Algorithm {
    /// Reads `alg` of a token. Nothing that needs a shared secret, and no missing signature, is accepted.
    pub(super) fn read(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "PS256" => Some(Algorithm::Ps256),
            "ES256" => Some(Algorithm::Es256),
            "ES384" => Some(Algorithm::Es384),
            "EdDSA" | "Ed25519" => Some(Algorithm::Ed25519),
            _ => None,
        }
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

/// The keys of a provider.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<Key>,
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    UnknownKey,
    SeveralKeys,
    Wrong,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys that provost cannot use are left out.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let set = Object::read(bytes)?;
        let Some(Value::Array(all)) = set.get("keys") else { return Err("it has no list `keys`".to_owned()) };
        if all.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        Ok(Self { keys: all.iter().filter_map(|key| Key::read(&Object::deserialize(key).ok()?)).collect() })
    }

    /// Checks a signature by the key that the token names, or by the only one that fits.
    pub(super) fn check(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signed: &[u8],
    ) -> Result<(), Doubt> {
        let is_named = |key: &&Key| id.is_none() || key.id.as_deref() == id;
        let mut fitting = self.keys.iter().filter(is_named).filter(|key| key.fits(algorithm));
        let Some(key) = fitting.next() else { return Err(Doubt::UnknownKey) };
        if fitting.next().is_some() {
            return Err(Doubt::SeveralKeys);
        }
        key.verify(algorithm, message, signed)
    }
}

impl Key {
    fn read(key: &Object) -> Option<Self> {
        let is_for_signatures = key.text("use").is_none_or(|kind| kind == "sig")
            && key.texts("key_ops").is_none_or(|all| all.contains(&"verify"));
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(key.text(name)?).ok();
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [vec![4], x, y].concat())
        };
        let material = match (key.text("kty")?, key.text("crv")) {
            ("RSA", _) => {
                let number = |name| Some(bytes(name)?.into_iter().skip_while(|byte| *byte == 0).collect());
                Material::Rsa { modulus: number("n")?, exponent: number("e")? }
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x").filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let algorithm = match key.get("alg") {
            None => None,
            // A key for something else, such as encryption, is left out.
            Some(name) => Some(Algorithm::read(name.as_str()?)?),
        };
        let id = key.text("kid").map(str::to_owned);
        is_for_signatures.then_some(Self { id, algorithm, material })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_possible = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::Ed25519,
        };
        is_possible && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> Result<(), Doubt> {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &Vec<u8>| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signed)
        };
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                // `ring` refuses keys of less than 2048 bits.
                let parameters = match algorithm {
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signed)
            }
            Material::P256(point) => by(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => by(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => by(&signature::ED25519, key),
        };
        verified.map_err(|_| Doubt::Wrong)
    }
}
