//! Reads OpenSSH keys: private keys without a passphrase, and public key lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;

use super::{Doubt, ProofKey, PublicKey};

const MAGIC: &[u8] = b"openssh-key-v1\0";
const KIND: &[u8] = b"ssh-ed25519";

/// Reads the key from the text of a private key file.
pub fn private(text: &str) -> Result<ProofKey, Doubt> {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let bytes = STANDARD.decode(body).map_err(|_| Doubt::NotAnSshKey)?;
    let mut rest = Reader(bytes.strip_prefix(MAGIC).ok_or(Doubt::NotAnSshKey)?);
    let (cipher, _, _) = (rest.string()?, rest.string()?, rest.string()?);
    if cipher != b"none" {
        return Err(Doubt::Locked);
    }
    if rest.number()? != 1 {
        return Err(Doubt::NotAnSshKey);
    }
    rest.string()?;
    let mut own = Reader(rest.string()?);
    // OpenSSH stores the same number twice, to show that decryption worked.
    if own.number()? != own.number()? || own.string()? != KIND {
        return Err(Doubt::NotAnSshKey);
    }
    let public = own.string()?;
    let seed: [u8; 32] =
        own.string()?.get(..32).and_then(|seed| seed.try_into().ok()).ok_or(Doubt::NotAnSshKey)?;
    let key = ProofKey::new(&seed);
    if key.0.verifying_key().as_bytes() == public { Ok(key) } else { Err(Doubt::NotAnSshKey) }
}

/// Reads the key from a line `ssh-ed25519 AAAA… comment`.
pub fn public(line: &str) -> Result<PublicKey, Doubt> {
    let encoded = line.split_whitespace().nth(1).ok_or(Doubt::NotAKey)?;
    let bytes = STANDARD.decode(encoded).map_err(|_| Doubt::NotAKey)?;
    let mut reader = Reader(&bytes);
    let (kind, key) = (reader.string()?, reader.string()?);
    let key: [u8; 32] = key.try_into().map_err(|_| Doubt::NotAKey)?;
    if kind != KIND {
        return Err(Doubt::NotAKey);
    }
    VerifyingKey::from_bytes(&key).map(PublicKey).map_err(|_| Doubt::NotAKey)
}

/// Reads the numbers and length-prefixed strings of a key.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Doubt> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Doubt::NotAnSshKey)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Doubt> {
        let bytes = self.take(4)?.try_into().map_err(|_| Doubt::NotAnSshKey)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn string(&mut self) -> Result<&'a [u8], Doubt> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| Doubt::NotAnSshKey)?)
    }
}
