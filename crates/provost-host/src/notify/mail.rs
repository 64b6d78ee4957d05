//! Sends a notification by e-mail over SMTP, as plain text.
//!
//! `smtps://` is TLS from the first byte, `smtp://` becomes TLS with STARTTLS before anything is said. Only a
//! server on this machine may be used without TLS.
//!
//! **Invariant:** nothing is sent to another machine without TLS, and no password to one without it.
//! **Invariant:** if a password is configured but missing, nothing is sent.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use lettre::Transport as _;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::SmtpTransport;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use provost_core::model::hash::Hash;
use ureq::http::Uri;

use super::webhook::variable_of;
use super::{DeliveryError, Notification, chat};
use crate::config::MailConfig;
use crate::config::notify::is_loopback;
use crate::egress::trust_roots::TrustRoots;

/// Timeout of one step of the conversation with the server; a later try follows.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most characters of a subject.
const SUBJECT_CHARS: usize = 200;

pub struct Mail {
    config: MailConfig,
    uri: Uri,
    /// `None` if its variable is not set.
    password: Option<String>,
    roots: TrustRoots,
}

/// Tells other programs that no person wrote the mail, so that none answers it.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Mail {
    pub fn new(config: &MailConfig, environment: &[(OsString, OsString)]) -> Self {
        let variable = config.password_env.as_deref();
        let password = variable.and_then(|name| variable_of(name, environment)).and_then(OsStr::to_str);
        Self {
            uri: config.server.parse().unwrap_or_default(),
            password: password.map(str::to_owned),
            roots: TrustRoots::from_environment(environment),
            config: config.clone(),
        }
    }

    pub(super) fn host(&self) -> &str {
        self.uri.host().unwrap_or("?")
    }

    pub(super) fn digest(&self) -> String {
        let words = format!("{}\n{}", self.config.server, self.config.to.join("\n"));
        Hash::of(words.as_bytes()).to_string()[..16].to_owned()
    }

    pub(super) fn deliver(&self, message: &Notification, patience: Duration) -> Result<(), DeliveryError> {
        let mail = self.message(message).map_err(|error| DeliveryError::for_good(error.to_string()))?;
        let transport = self.transport(patience.min(PATIENCE))?;
        match transport.send(&mail) {
            Ok(_) => Ok(()),
            Err(error) if error.is_permanent() => Err(DeliveryError::for_good(in_words(&error))),
            Err(error) => Err(DeliveryError::for_now(in_words(&error))),
        }
    }

    fn transport(&self, patience: Duration) -> Result<SmtpTransport, DeliveryError> {
        let is_wrapped = self.uri.scheme_str() == Some("smtps");
        let tls = match (is_wrapped, is_loopback(self.host())) {
            (true, _) => Tls::Wrapper(self.tls()?),
            (false, false) => Tls::Required(self.tls()?),
            (false, true) => Tls::None,
        };
        let port = self.uri.port_u16().unwrap_or(if is_wrapped { 465 } else { 587 });
        let server = self.host().trim_start_matches('[').trim_end_matches(']');
        let mut builder = SmtpTransport::builder_dangerous(server)
            .port(port)
            .tls(tls)
            .hello_name(ClientId::Domain("provost".to_owned()))
            .timeout(Some(patience));
        if let Some(user) = &self.config.user {
            let Some(password) = &self.password else {
                let name = self.config.password_env.as_deref().unwrap_or("`password_env`");
                return Err(DeliveryError::for_good(format!(
                    "the variable {name} with the password is not set"
                )));
            };
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(builder.build())
    }

    fn tls(&self) -> Result<TlsParameters, DeliveryError> {
        let certificates = self.roots.load().map_err(DeliveryError::for_good)?;
        let host = self.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut tls = TlsParameters::builder(host).certificate_store(CertificateStore::None);
        for each in certificates {
            // A certificate that cannot be read is no authority.
            if let Ok(certificate) = Certificate::from_der(each.to_vec()) {
                tls = tls.add_root_certificate(certificate);
            }
        }
        tls.build().map_err(|error| DeliveryError::for_good(in_words(&error)))
    }

    fn message(&self, message: &Notification) -> Result<Message, lettre::error::Error> {
        let decision = &message.decision;
        let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|_| lettre::error::Error::NonAsciiChars);
        let subject: String =
            format!("{}: {}", message.title, message.line).chars().take(SUBJECT_CHARS).collect();
        let mut builder = Message::builder()
            .from(mailbox(&self.config.from)?)
            .subject(subject.replace(|letter: char| letter.is_control(), " "))
            // The same for every try, so that a mailbox can recognise a duplicate.
            .message_id(Some(format!("<{}@provost>", Hash::of(message.id.as_bytes()))))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN);
        for to in &self.config.to {
            builder = builder.to(mailbox(to)?);
        }
        let whither = match &decision.link {
            Some(link) => format!("Decide here: {link}"),
            None => format!("Decide with: {}", decision.command),
        };
        let mut parts = vec![decision.sentence.clone(), chat::choices(decision), whither];
        parts.retain(|part| !part.is_empty());
        builder.body(parts.join("\n\n") + "\n")
    }
}

/// Returns the error with its causes.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = next.source();
    }
    words
}
