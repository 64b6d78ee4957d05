//! Tokens that are valid, and those that are not.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::hmac;
use serde_json::{Value, json};

use super::super::id_token::{Expected, TokenFault, check};
use super::super::keys::KeySet;
use super::{ISSUER, NOW, Signer, claims};

/// Modulus of an RSA key whose private half was thrown away.
const MODULUS: &str = concat!(
    "pk8WVYVY9CQRrsxc9EiSvuG7TIQQfqJNfvd3--AUkEm6UBaWJXP-JRBZaiEbByk8TiWcqKZ1oey3KXP5TPlxvCKwj4PzYyTZ",
    "2LijsJmaZLKvYuViZ4tcD5z5e6s7W3PgdH7kRflde_Ei0ljPiR8h0ATYeMgz4gT4f5c6oO0RVmDjPtPU79kVlk0RnBY-mL9K",
    "fadlfCYSxmyehTnKSA4GOHDRQ3qtS85VspDI0UlpKi9ub3ZCEtdbECEgkIr-Qiskr1J_7BWHFrwb-THZ1Ulv5PR59v2cPJVJ",
    "97OQYs6wPR9f8eWiXAHTaU5r_Oq1Q7VQMTZ2GxDRRJVQlr5Lz17yCw",
);
/// A token that the key signed with RS256.
const RS256: &str = concat!(
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJwcm92b3N0Iiw",
    "ic3ViIjoiMSIsIm5vbmNlIjoibi0xIiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDM2MDB9.DLbK40vdLmBDfNsr2I",
    "I_EM1ARTRY2mpSnsfKXgEiNNCLhPKaZ17Uo_9Wdaa-MT48c9a9Z2zV68hxQRxW01LXy_piJkgNQbN1LHaUx3tBxJpqaMdz6B",
    "UnbEzMFPM1ro0ierAHmwzHUOFa9DEcrhs43_vRpBqe6puT_iCAssFOlpFwn3NwPHg-hwgFm_qG1mREuGtMJYx_Jmuf34oPVH",
    "SQ_FsbI5Bd6NBIlerLEne-1k0G6ocbzgixCLkgbQKz6uOuegvyCFpaAleQq_rAwBrYakBCKQhFY-cIvG8C9Q5-0oPYwLhX1i",
    "OK-GbVMRuvKZJRXjz37hFjS_wtV2GdMG9RQQ",
);
/// The same, signed with PS256.
const PS256: &str = concat!(
    "eyJhbGciOiJQUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJwcm92b3N0Iiw",
    "ic3ViIjoiMSIsIm5vbmNlIjoibi0xIiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDM2MDB9.UPJwMVvXcg-QSzEO-S",
    "p9CQhSAQYd_-53cP81T7hLxfVc_JLVyJ47Hq9125iy5zjEXp14rt82OX25sTig6V4Ryy0etV0rXmfDhVHNazp2rYHZUhGmrx",
    "Rin3Zk0qW5f8qv2o3dE8s8A5YhE2xlPTII4X1OPygkUdXGd2vjwOMBpika490LCNTBLZHHbkW98YJ-0lUj83FLfWk0oas5_9",
    "B97s6sNGRlaEoZq9aakd8R0RE8cB4bhoDg6MXo4DTLFrlCW3faJFZqkeJPBSozvU7MhpK4DgXRXh2wNLN1xmEDenN1u4Bt0M",
    "dpqJDav1C9nRiQg9JwX-nEnpeoGn88FYlzzg",
);

fn keys(all: &[Value]) -> KeySet {
    KeySet::read(json!({ "keys": all }).to_string().as_bytes()).expect("keys")
}

fn checked(token: &str, keys: &KeySet) -> Result<String, TokenFault> {
    let expected = Expected { issuer: ISSUER, client_id: "provost", nonce: "n-1" };
    check(token, keys, &expected, NOW).map(|claims| claims.text("sub").unwrap_or_default().to_owned())
}

/// Returns the result for a token with a changed header and changed claims, signed by the provider.
fn signed(header: Value, changed: Value) -> Result<String, TokenFault> {
    let signer = Signer::p256();
    let mut whole = json!({ "alg": "ES256", "kid": "a" });
    for (name, value) in header.as_object().expect("a header") {
        whole[name] = value.clone();
    }
    whole.as_object_mut().expect("a header").retain(|_, value| !value.is_null());
    checked(&signer.token(&whole.to_string(), &claims(changed).to_string()), &keys(&[signer.public("a")]))
}

fn rsa(more: Value) -> Value {
    let mut key = json!({ "kty": "RSA", "kid": "rsa", "n": MODULUS, "e": "AQAB" });
    for (name, value) in more.as_object().expect("parts") {
        key[name] = value.clone();
    }
    key
}

#[test]
fn tokens_of_each_algorithm_are_accepted() {
    for signer in [Signer::ed25519(), Signer::p256()] {
        let header = json!({ "alg": signer.algorithm(), "kid": "a", "typ": "JWT" }).to_string();
        let token = signer.token(&header, &claims(json!({})).to_string());
        assert_eq!(checked(&token, &keys(&[signer.public("b"), signer.public("a")])), Ok("1".to_owned()));
    }
    for token in [RS256, PS256] {
        assert_eq!(checked(token, &keys(&[rsa(json!({}))])), Ok("1".to_owned()));
    }
    // A key that names its algorithm is for no other one.
    assert_eq!(checked(PS256, &keys(&[rsa(json!({ "alg": "RS256" }))])), Err(TokenFault::UnknownKey));
    assert_eq!(checked(RS256, &keys(&[rsa(json!({ "alg": "RS256", "use": "sig" }))])), Ok("1".to_owned()));
}

#[test]
fn what_a_token_says_is_checked() {
    let none = json!({});
    let table: [(&str, Value, Result<&str, TokenFault>); 27] = [
        ("nothing", json!({}), Ok("1")),
        ("another issuer", json!({ "iss": "https://evil.example" }), Err(TokenFault::Issuer)),
        ("an issuer with a slash", json!({ "iss": "https://id.example/" }), Err(TokenFault::Issuer)),
        ("no issuer", json!({ "iss": null }), Err(TokenFault::Issuer)),
        ("another audience", json!({ "aud": "other" }), Err(TokenFault::Audience)),
        ("a longer audience", json!({ "aud": "provost2" }), Err(TokenFault::Audience)),
        ("no audience", json!({ "aud": null }), Err(TokenFault::Audience)),
        ("a list of one", json!({ "aud": ["provost"] }), Ok("1")),
        ("an empty list", json!({ "aud": [] }), Err(TokenFault::Audience)),
        ("a list with a number", json!({ "aud": ["provost", 1] }), Err(TokenFault::Audience)),
        ("two audiences", json!({ "aud": ["provost", "b"] }), Err(TokenFault::Audience)),
        ("two, for us", json!({ "aud": ["provost", "b"], "azp": "provost" }), Ok("1")),
        ("two, for another", json!({ "aud": ["provost", "b"], "azp": "b" }), Err(TokenFault::Audience)),
        ("one, for another", json!({ "azp": "b" }), Err(TokenFault::Audience)),
        ("another nonce", json!({ "nonce": "n-2" }), Err(TokenFault::Nonce)),
        ("no nonce", json!({ "nonce": null }), Err(TokenFault::Nonce)),
        ("expired", json!({ "exp": NOW - 60 }), Err(TokenFault::Expired)),
        ("expired within the skew", json!({ "exp": NOW - 59 }), Ok("1")),
        ("issued later", json!({ "iat": NOW + 61 }), Err(TokenFault::TooEarly)),
        ("issued later within the skew", json!({ "iat": NOW + 60 }), Ok("1")),
        ("issued long ago", json!({ "iat": NOW - 661 }), Err(TokenFault::TooOld)),
        ("not before later", json!({ "nbf": NOW + 61 }), Err(TokenFault::TooEarly)),
        ("fractions", json!({ "iat": NOW as f64 - 0.5, "exp": NOW as f64 + 0.5 }), Ok("1")),
        ("no subject", json!({ "sub": null }), Err(TokenFault::Subject)),
        ("an empty subject", json!({ "sub": " " }), Err(TokenFault::Subject)),
        ("a number as subject", json!({ "sub": 1 }), Err(TokenFault::Subject)),
        ("a long subject", json!({ "sub": "x".repeat(256) }), Err(TokenFault::Subject)),
    ];
    for (what, changed, wanted) in table {
        assert_eq!(signed(none.clone(), changed), wanted.map(str::to_owned), "{what}");
    }
    for (name, value) in
        [("exp", json!(null)), ("iat", json!(null)), ("exp", json!("soon")), ("iat", json!(-5))]
    {
        let fault = signed(none.clone(), json!({ name: value })).expect_err("no time");
        assert!(matches!(&fault, TokenFault::Claims(why) if why.contains(name)), "{name}: {fault}");
    }
}

#[test]
fn what_the_header_says_cannot_weaken_the_check() {
    let bad = |name: &str| Err(TokenFault::Algorithm(name.to_owned()));
    for name in ["none", "None", "HS256", "HS384", "RS1", "ES512", ""] {
        assert_eq!(signed(json!({ "alg": name }), json!({})), bad(name), "{name}");
    }
    assert_eq!(signed(json!({ "alg": null }), json!({})), bad(""));
    // The algorithm of another kind of key.
    for name in ["RS256", "EdDSA", "ES384"] {
        assert_eq!(signed(json!({ "alg": name }), json!({})), Err(TokenFault::UnknownKey), "{name}");
    }
    assert_eq!(signed(json!({ "kid": "b" }), json!({})), Err(TokenFault::UnknownKey));
    assert_eq!(signed(json!({ "kid": null }), json!({})), Ok("1".to_owned()), "the only key");
    for header in
        [json!({ "kid": 1 }), json!({ "crit": ["b64"] }), json!({ "typ": "at+jwt" }), json!({ "typ": 1 })]
    {
        let fault = signed(header.clone(), json!({}));
        assert!(matches!(fault, Err(TokenFault::Form(_))), "{header}: {fault:?}");
    }
    // A key in the token itself is never used.
    let attacker = Signer::p256();
    let header = json!({ "alg": "ES256", "jwk": attacker.public("a"), "kid": "a" });
    let token = attacker.token(&header.to_string(), &claims(json!({})).to_string());
    assert_eq!(checked(&token, &keys(&[Signer::p256().public("a")])), Err(TokenFault::Signature));
}

#[test]
fn forged_signatures_are_refused() {
    let signer = Signer::p256();
    let known = keys(&[signer.public("a")]);
    let header = json!({ "alg": "ES256", "kid": "a" }).to_string();
    let token = signer.token(&header, &claims(json!({})).to_string());
    let (message, signature) = token.rsplit_once('.').expect("parts");
    assert_eq!(checked(&token, &known), Ok("1".to_owned()));

    // Other claims under the same signature.
    let other = BASE64.encode(claims(json!({ "sub": "2" })).to_string());
    let swapped = format!("{}.{other}.{signature}", BASE64.encode(&header));
    assert_eq!(checked(&swapped, &known), Err(TokenFault::Signature));
    // No signature, an empty one, and one of zeros.
    for forged in ["".to_owned(), BASE64.encode([0; 64]), BASE64.encode([0; 63])] {
        assert_eq!(checked(&format!("{message}.{forged}"), &known), Err(TokenFault::Signature));
    }
    // Without an algorithm, as some libraries once accepted it.
    let none = BASE64.encode(json!({ "alg": "none" }).to_string());
    let plain = BASE64.encode(claims(json!({})).to_string());
    assert_eq!(checked(&format!("{none}.{plain}."), &known), Err(TokenFault::Algorithm("none".to_owned())));
    // An HMAC with the public key as its secret.
    let rsa_keys = keys(&[rsa(json!({}))]);
    for secret in [
        MODULUS.as_bytes().to_vec(),
        BASE64.decode(MODULUS).expect("bytes"),
        rsa(json!({})).to_string().into(),
    ] {
        let message =
            format!("{}.{plain}", BASE64.encode(json!({ "alg": "HS256", "kid": "rsa" }).to_string()));
        let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
        let token = format!("{message}.{}", BASE64.encode(code));
        assert_eq!(checked(&token, &rsa_keys), Err(TokenFault::Algorithm("HS256".to_owned())));
    }
    // Signed by another key of the same provider than the one that it names.
    let (one, two) = (Signer::p256(), Signer::p256());
    let both = keys(&[one.public("one"), two.public("two")]);
    let named =
        one.token(&json!({ "alg": "ES256", "kid": "two" }).to_string(), &claims(json!({})).to_string());
    assert_eq!(checked(&named, &both), Err(TokenFault::Signature));
    // If two keys have the same name, or the token names no key, provost does not guess which one signed it.
    let twice = keys(&[one.public("a"), two.public("a")]);
    assert_eq!(checked(&token, &twice), Err(TokenFault::SeveralKeys));
    let nameless = one.token(&json!({ "alg": "ES256" }).to_string(), &claims(json!({})).to_string());
    assert_eq!(checked(&nameless, &both), Err(TokenFault::SeveralKeys));
}

#[test]
fn a_token_is_read_in_one_way_only() {
    let signer = Signer::p256();
    let known = keys(&[signer.public("a")]);
    let header = json!({ "alg": "ES256", "kid": "a" }).to_string();
    let plain = claims(json!({})).to_string();
    // Two readers could take different claims.
    let twice = plain.replacen('{', "{\"sub\":\"2\",", 1);
    let fault = checked(&signer.token(&header, &twice), &known).expect_err("twice");
    assert!(matches!(&fault, TokenFault::Claims(why) if why.contains("`sub` is there twice")), "{fault}");
    let header_twice = header.replacen('{', "{\"alg\":\"none\",", 1);
    assert!(matches!(checked(&signer.token(&header_twice, &plain), &known), Err(TokenFault::Form(_))));
    let token = signer.token(&header, &plain);
    let odd = [
        String::new(),
        "a".to_owned(),
        "a.b".to_owned(),
        format!("{token}.a"),
        format!("a.{token}"),
        format!("{token}="),
        format!(" {token}"),
        token.replacen('.', "..", 1),
        signer.token(&header, "[]").replace('.', "+"),
        "x".repeat(70 << 10),
    ];
    for odd in odd {
        let fault = checked(&odd, &known);
        assert!(matches!(fault, Err(TokenFault::Form(_) | TokenFault::Signature)), "{fault:?}");
    }
    for claims in ["[]", "\"\"", "null", "", "{", "{}x"] {
        let fault = checked(&signer.token(&header, claims), &known);
        assert!(matches!(fault, Err(TokenFault::Claims(_))), "{claims}: {fault:?}");
    }
}

#[test]
fn keys_that_are_not_for_signatures_are_left_out() {
    for more in [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["encrypt"] }),
        json!({ "alg": "RSA-OAEP" }),
        json!({ "kty": "oct", "k": MODULUS }),
        json!({ "n": "!" }),
        // A key of 1024 bits.
        json!({ "n": BASE64.encode([0xff; 128]) }),
    ] {
        let fault = checked(RS256, &keys(&[rsa(more.clone())]));
        assert!(matches!(fault, Err(TokenFault::UnknownKey | TokenFault::Signature)), "{more}: {fault:?}");
    }
    for text in ["", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[],\"keys\":[]}"] {
        assert!(KeySet::read(text.as_bytes()).is_err(), "{text}");
    }
    let many: Vec<Value> = (0..101).map(|_| rsa(json!({}))).collect();
    assert!(KeySet::read(json!({ "keys": many }).to_string().as_bytes()).is_err());
}
