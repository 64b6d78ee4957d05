//! Decides which addresses count as the model's API: well-known hosts, and those that the user named.
//!
//! An address that the user named is accepted as it is, also on the local network or on this machine. A
//! well-known name must resolve to a public address; a private one indicates an attack.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Address;

/// Hosts of the common clients, each with port 443: for the model, and for the renewal of a login.
const WELL_KNOWN: [&str; 24] = [
    "api.anthropic.com",
    "console.anthropic.com",
    "platform.claude.com",
    "api.openai.com",
    "auth.openai.com",
    "chatgpt.com",
    "generativelanguage.googleapis.com",
    "cloudcode-pa.googleapis.com",
    "aiplatform.googleapis.com",
    "oauth2.googleapis.com",
    "openrouter.ai",
    "api.mistral.ai",
    "api.deepseek.com",
    "api.x.ai",
    "api.groq.com",
    "api.cerebras.ai",
    "api.together.xyz",
    "api.fireworks.ai",
    "api.cohere.com",
    "api.moonshot.ai",
    "api.z.ai",
    "dashscope.aliyuncs.com",
    "dashscope-intl.aliyuncs.com",
    "api.githubcopilot.com",
];

/// Variables in which a user gives a client the address of its model.
const BASE_URLS: [&str; 15] = [
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "DEEPSEEK_BASE_URL",
    "GEMINI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GROQ_BASE_URL",
    "MISTRAL_BASE_URL",
    "MODEL_BASE_URL",
    "OLLAMA_HOST",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "OPENROUTER_BASE_URL",
];
const OLLAMA_PORT: u16 = 11434;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    named: BTreeSet<Address>,
    /// Well-known hosts are not allowed either.
    no_others: bool,
}

/// Why an address is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    WellKnown,
    Named,
}

impl AllowedHosts {
    /// Allows the addresses in the agent's environment and in the configuration of its role.
    pub fn new(environment: &[(OsString, OsString)], api: &[String]) -> Self {
        let of_environment = environment.iter().filter_map(|(name, value)| {
            let (name, value) = (name.to_str()?, value.to_str()?);
            let is_of_codex = name.starts_with("CODEX_") && name.ends_with("_BASE_URL");
            let is_known = is_of_codex || BASE_URLS.contains(&name);
            is_known.then(|| Address::of_url(value, OLLAMA_PORT)).flatten()
        });
        let of_role = api.iter().filter_map(|text| Address::parse(text));
        Self { named: of_environment.chain(of_role).map(at_home).collect(), no_others: false }
    }

    /// Allows only the meter and the addresses in the configuration, because other connections would not be
    /// counted.
    pub fn only(meter: SocketAddr, api: &[String]) -> Self {
        let meter = Address { host: meter.ip().to_string(), port: meter.port() };
        let of_role = api.iter().filter_map(|text| Address::parse(text)).map(at_home);
        Self { named: of_role.chain([meter]).collect(), no_others: true }
    }

    pub(super) fn leave(&self, to: &Address) -> Option<Leave> {
        if self.named.contains(to) {
            return Some(Leave::Named);
        }
        let is_well_known = to.port == 443 && WELL_KNOWN.contains(&to.host.as_str());
        (is_well_known && !self.no_others).then_some(Leave::WellKnown)
    }

    /// Returns the loopback addresses, which mean something else inside the sandbox.
    pub fn loopback(&self) -> impl Iterator<Item = &Address> {
        self.named.iter().filter(|address| address.is_loopback())
    }
}

/// Maps the wildcard address of a server to loopback.
fn at_home(address: Address) -> Address {
    match address.host.as_str() {
        "0.0.0.0" => Address { host: "127.0.0.1".to_owned(), ..address },
        "::" => Address { host: "::1".to_owned(), ..address },
        _ => address,
    }
}

impl Leave {
    /// Returns whether the name of such a host may resolve to this address.
    pub(super) fn covers(self, host: &str, ip: IpAddr) -> bool {
        match (self, host.parse::<IpAddr>()) {
            (Leave::Named, Ok(named)) => ip == named,
            (Leave::Named, Err(_)) if host == "localhost" => ip.is_loopback(),
            // A name may resolve to the local network, but not to this machine.
            (Leave::Named, Err(_)) => is_public(ip) || is_of_the_house(ip),
            (Leave::WellKnown, _) => is_public(ip),
        }
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_public_v4(v4),
            None => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || is_local_v6(v6)),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special =
        matches!((a, b, c), (0 | 240.., _, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _));
    !(is_special || ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast())
}

/// Returns whether the address is unique local or link-local.
fn is_local_v6(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xfe00 == 0xfc00 || ip.segments()[0] & 0xffc0 == 0xfe80
}

/// Returns the IPv4 address inside an IPv6 address: mapped, translated, or 6to4.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

fn is_of_the_house(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private() || matches!(v4.octets(), [100, 64..=127, ..]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xfe00 == 0xfc00,
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, AllowedHosts, Leave};

    fn allowed(variables: &[(&str, &str)], api: &[&str]) -> AllowedHosts {
        let environment: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        AllowedHosts::new(&environment, &api.iter().map(|each| (*each).to_owned()).collect::<Vec<_>>())
    }

    fn leave(allowed: &AllowedHosts, to: &str) -> Option<Leave> {
        allowed.leave(&Address::parse(to).expect("an address"))
    }

    #[test]
    fn the_well_known_and_the_named_and_nobody_else() {
        let variables = [
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080/r/x"),
            ("CODEX_OSS_BASE_URL", "http://gpu.lan:9000/v1"),
            ("OLLAMA_HOST", "0.0.0.0"),
            ("PIP_BASE_URL", "https://files.example.org"),
        ];
        let allowed = allowed(&variables, &["llm.example.org:8443"]);
        for named in ["127.0.0.1:8080", "gpu.lan:9000", "127.0.0.1:11434", "llm.example.org:8443"] {
            assert_eq!(leave(&allowed, named), Some(Leave::Named), "{named}");
        }
        assert_eq!(leave(&allowed, "API.anthropic.com:443"), Some(Leave::WellKnown));
        for other in [
            "api.anthropic.com:80",
            "127.0.0.1:8081",
            "llm.example.org:443",
            "files.example.org:443",
            "api.anthropic.com.example.org:443",
        ] {
            assert_eq!(leave(&allowed, other), None, "{other}");
        }
        assert_eq!(allowed.loopback().count(), 2);
    }

    #[test]
    fn who_is_metered_reaches_the_meter_and_what_was_named_beside_it() {
        let allowed = AllowedHosts::only(([127, 0, 0, 1], 4000).into(), &["llm.example.org:443".to_owned()]);
        for named in ["127.0.0.1:4000", "llm.example.org:443"] {
            assert_eq!(leave(&allowed, named), Some(Leave::Named), "{named}");
        }
        for other in ["api.anthropic.com:443", "127.0.0.1:4001"] {
            assert_eq!(leave(&allowed, other), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_leads_into_the_house_is_no_model() {
        let covers = |leave: Leave, host: &str, ip: &str| leave.covers(host, ip.parse().expect("an address"));
        let private = [
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "255.255.255.255",
        ];
        for ip in private {
            assert!(!covers(Leave::WellKnown, "api.openai.com", ip), "{ip}");
        }
        assert!(covers(Leave::WellKnown, "api.openai.com", "8.8.8.8"));
        assert!(covers(Leave::WellKnown, "api.openai.com", "2606:4700::1"));
        assert!(covers(Leave::Named, "gpu.lan", "192.168.1.1"));
        assert!(covers(Leave::Named, "localhost", "::1"));
        assert!(covers(Leave::Named, "127.0.0.1", "127.0.0.1"));
        for ip in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"] {
            assert!(!covers(Leave::Named, "gpu.lan", ip), "{ip}");
        }
        assert!(!covers(Leave::Named, "localhost", "8.8.8.8"));
    }
}
