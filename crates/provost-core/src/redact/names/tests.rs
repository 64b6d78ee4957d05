//! Tests which names hold secrets, and how surely.

use super::*;

#[test]
fn names_of_variables_that_hold_secrets_are_recognised() {
    for name in [
        "API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MYSQL_PWD",
        "npm_config__auth",
        "ANTHROPIC_API_KEY",
        "STRIPE_SECRET",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SSH_KEY",
        "VAULT_TOKEN",
        "DBPASS",
        "SECRET_KEY_BASE",
        "JWT_SECRET",
        "SIGNING_KEY_2",
        "AZURE_STORAGE_CONNECTION_STRING",
        "dbPassword",
        "NPM_AUTH",
        "DOCKER_PASS",
        "SESSION_COOKIE",
        "OPENAI_APIKEY",
        "CARGO_REGISTRY_TOKEN",
        "ENCRYPTION_PASSPHRASE",
        "AWS_SESSION_TOKEN",
    ] {
        assert!(looks_secret(name), "{name} holds a secret");
    }
}

#[test]
fn names_that_only_sound_like_secrets_are_left_alone() {
    for name in [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "KEYBOARD",
        "KEYMAP",
        "SSH_AUTH_SOCK",
        "GPG_TTY",
        "XAUTHORITY",
        "SSH_ASKPASS",
        "PASSWORD_STORE_DIR",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "TOKEN_LIMIT",
        "AUTHOR",
        "GIT_AUTHOR_NAME",
        "MONKEY",
        "COMPASS",
        "PUBLIC_KEY",
        "SECRETARY",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_SESSION_TYPE",
        "API_URL",
        "PRIMARY_KEY",
        "PASSWORD_MIN_LENGTH",
        "KEY_FILE",
        "TERM",
        "LANG",
        "CARGO_HOME",
        "SECRET_NAME",
        "",
    ] {
        assert!(!looks_secret(name), "{name} holds no secret");
    }
}

#[test]
fn names_are_read_as_words() {
    assert_eq!(words("AWSSecretKey_2"), ["aws", "secret", "key", "2"]);
    assert_eq!(words("--super-secret_token"), ["super", "secret", "token"]);
    assert_eq!(words("OktaApiToken"), ["okta", "api", "token"]);
    assert_eq!(words("ключ"), Vec::<String>::new());
}
