//! Describes the public formats of tokens, one line per vendor, as data.
//!
//! A shape is tried only if one of its hints occurs in the text. A match extends to the end of its run of
//! characters, so that no tail of a longer future token is left.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use super::Found;
use super::values;

pub(super) struct Shape {
    pub(super) kind: &'static str,
    /// At least one of these is part of every match, in any case. If empty, always try the shape.
    pub(super) hints: &'static [&'static str],
    pattern: &'static str,
    whole: bool,
    regex: OnceLock<Regex>,
}

/// The pattern is the whole token and starts at a word boundary. Escapes that end in a letter (`\n`, a
/// colour, `%3D`) are not part of the word.
const fn token(kind: &'static str, hints: &'static [&'static str], pattern: &'static str) -> Shape {
    Shape { kind, hints, pattern, whole: true, regex: OnceLock::new() }
}

/// The secret is group 1 of the pattern.
const fn part(kind: &'static str, hints: &'static [&'static str], pattern: &'static str) -> Shape {
    Shape { kind, hints, pattern, whole: false, regex: OnceLock::new() }
}

const BEFORE: &str = r"(?:^|[^A-Za-z0-9_]|\\[nrt]|\[[0-9;]{0,12}m|%[0-9A-Fa-f]{2})";

impl Shape {
    pub(super) fn find(&self, text: &str, found: &mut Vec<Found<'_>>) {
        for captures in self.regex().captures_iter(text) {
            let Some(secret) = captures.get(1) else { continue };
            let blank = match self.whole {
                true => values::crossed_out(secret.as_str()) || values::spelled(secret.as_str()),
                false => values::stands_for(secret.as_str()) || pins_digest(text, secret.end()),
            };
            if !blank {
                found.push(Found { start: secret.start(), end: secret.end(), kind: self.kind });
            }
        }
    }

    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let pattern =
                if self.whole { format!("{BEFORE}({})", self.pattern) } else { self.pattern.to_owned() };
            // A test compiles every pattern.
            Regex::new(&pattern).unwrap_or_else(|error| unreachable!("shape {}: {error}", self.kind))
        })
    }
}

/// Recognises `docker://image:tag@sha256:…`, which has the form of a password but is none.
fn pins_digest(text: &str, end: usize) -> bool {
    text[end..].starts_with("@sha256:")
}

pub(super) fn all() -> &'static [Shape] {
    &SHAPES
}

pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.kind)
}

/// Returns all hints of all shapes, in the order that [`of_hint`] uses.
pub(super) fn hints() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().flat_map(|shape| shape.hints.iter().copied())
}

/// Returns the shape of the hint at `index`.
pub(super) fn of_hint(index: usize) -> Option<usize> {
    static OWNERS: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let each = SHAPES.iter().enumerate();
        each.flat_map(|(shape, data)| std::iter::repeat_n(shape, data.hints.len())).collect()
    });
    OWNERS.get(index).copied()
}

static SHAPES: [Shape; 135] = [
    // Armoured keys. If the end is missing, everything that still looks like a key.
    part(
        "private-key",
        &["private key"],
        concat!(
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:",
            r"(?:[^-]|-{1,4}[^-])*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
            r"|(?:(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{16,}|[A-Za-z]+(?:-[A-Za-z]+)?: [^\n]*))*))"
        ),
    ),
    part("private-key", &["putty-user-key"], r"Private-Lines: \d+((?:\r?\n[A-Za-z0-9+/=]{4,})+)"),
    token("age-key", &["age-secret-key-"], r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,}"),
    part(
        "private-jwk",
        &["\"d\"", "\"dp\"", "\"dq\"", "\"qi\"", "\"p\"", "\"q\"", "\"k\"", "'d'"],
        r#"["'](?:d|dp|dq|qi|p|q|k)\\?["']\s*:\s*\\?["']([A-Za-z0-9_+/=-]{40,})"#,
    ),
    token(
        "jwt",
        &["eyj"],
        r"eyJ[A-Za-z0-9_-]{6,}={0,2}\.(?:eyJ|[A-Za-z0-9_-]{6})[A-Za-z0-9_-]{4,}={0,2}(?:\.[A-Za-z0-9_/+=-]*)*",
    ),
    token("jwt", &["zxlk"], r"ZXlK[A-Za-z0-9+/_-]{60,}={0,2}"),
    // Addresses and headers.
    part(
        "url-password",
        &["://"],
        r#"(?i)[a-z][a-z0-9+.-]{0,30}://[^\s/:@"'`<>|\\]*:([^\s/"'`<>|\\]+)@[^\s/@"'`<>|\\]"#,
    ),
    part(
        "url-token",
        &["://"],
        r#"(?i)[a-z][a-z0-9+.-]{0,30}://([A-Za-z0-9_.~%-]{20,})(?::x-oauth-basic)?@[^\s@]"#,
    ),
    part("url-password", &["@tcp("], r#"[A-Za-z0-9_.-]+:([^\s:@/"']+)@tcp\("#),
    part(
        "url-signature",
        &["sig=", "signature="],
        r"(?i)[?&](?:sig|x-amz-signature|x-goog-signature|signature)=([A-Za-z0-9%+/=_-]{16,})",
    ),
    part(
        "url-signature",
        &["x-amz-security-token="],
        r"(?i)[?&]x-amz-security-token=([A-Za-z0-9%+/=_-]{16,})",
    ),
    part(
        "authorization",
        &["authorization"],
        r#"(?i)authorization\\?["'`]?\s*(?:[:=]|=>|,)\s*[\\"'`fb]{0,3}[a-z][a-z_-]{1,20}[ =]+(?:(?:token|credential|key)=)?["']?([A-Za-z0-9._~+/=:|-]{6,})"#,
    ),
    part(
        "authorization",
        &["authorization"],
        r#"(?i)authorization\\?["'`]?\s*(?:[:=]|=>|,)\s*[\\"'`fb]{0,3}([A-Za-z._~+/=:|-]*[0-9][A-Za-z0-9._~+/=:|-]{7,})"#,
    ),
    part(
        "bearer",
        &["bearer"],
        r"(?i)bearer[ =:]+([A-Za-z0-9._~+/|-]{8,}[0-9][A-Za-z0-9._~+/|-]*=*|[A-Za-z._~+/|-]*[0-9][A-Za-z0-9._~+/|-]{10,}=*)",
    ),
    part(
        "basic",
        &["basic "],
        r"(?i)[^a-z]basic\s+([A-Za-z0-9+/]{11,}={1,2}|[A-Za-z+/]*[0-9][A-Za-z0-9+/]{11,})",
    ),
    part(
        "cookie",
        &["cookie"],
        r#"(?i)(?:[^a-z_-]|^)cookie\\?["']?\s*:\s*\\?["']?([A-Za-z0-9_.-]+=[^\s"'\\]{8,}[^\n"'\\]*)"#,
    ),
    part("cookie", &["set-cookie"], r"(?i)set-cookie:\s*[^\s=;]+=([^\s;]{8,})"),
    part(
        "cookie",
        &["_gitlab_session=", "phpsessid=", "jsessionid=", "connect.sid="],
        r"(?i)(?:_gitlab_session|phpsessid|jsessionid|connect\.sid)=([A-Za-z0-9%._-]{12,})",
    ),
    part(
        "password",
        &["curl", "wget", "http"],
        r#"(?:curl|wget|https?)\s(?:[^\n|;]|\\\r?\n)*?(?:-u|--user|--proxy-user|-U)[ =]*\\?["']?[^\s"':]{0,120}:([^"'\s\\]*[^"'\s\\0-9][^"'\s\\]*)"#,
    ),
    part(
        "password",
        &["curl"],
        r#"curl\s(?:[^\n|;]|\\\r?\n)*?(?:-u|--user)[ =]*["']?([^\s"':$<{]{8,}):["'\s]"#,
    ),
    part(
        "password",
        &["--http-password", "--password", "--ftp-password"],
        r#"--(?:http-|ftp-|proxy-)?password=["']?([^\s"']{4,})"#,
    ),
    part("password", &["machine", "login"], r"(?:machine\s+\S+|default)\s+login\s+\S+\s+password\s+(\S{3,})"),
    part(
        "password",
        &[":5432:", ":5433:", ":6432:", ":*:"],
        r"(?m)^(?:[A-Za-z0-9_.*-]+):(?:5432|5433|6432|\*):[A-Za-z_*][\w-]*:[\w.*-]+:(\S{3,})$",
    ),
    part(
        "password",
        &["login"],
        r#"(?:docker|podman|helm|oc|az|skopeo|buildah)\s(?:[^\n|;]*?\s)?login(?:\s[^\n|;]*?)?\s-p[ =]+["']?([^\s"']{4,})"#,
    ),
    part("password", &["sshpass"], r#"sshpass\s+-p\s*["']?([^\s"']{3,})"#),
    part(
        "password",
        &["mysql", "mariadb"],
        r#"(?:mysql|mysqldump|mysqladmin|mariadb)(?: [^\n|;]*?)? -p([^\s"'-][^\s"']{2,})"#,
    ),
    part(
        "password",
        &["net use", "/user:", "/pass"],
        r#"(?i)net\s+use\s+\S+(?:\s+\\\\\S+)?\s+(\S{4,})\s+/user:"#,
    ),
    part(
        "password-hash",
        &["$2a$", "$2b$", "$2y$", "$6$", "$5$", "$1$", "$apr1$", "$argon2", "$y$"],
        r"(\$(?:2[aby]|[156y]|apr1|argon2(?:id|i|d))\$[A-Za-z0-9./$=,+-]{20,})",
    ),
    // Code and package hosts.
    token(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})",
    ),
    token(
        "gitlab-token",
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glrtr-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glimt-",
            "glagent-",
            "gloas-",
            "glsoat-",
            "glffct-",
            "gr1348941",
        ],
        r"(?:gl(?:pat|dt|rtr|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_=.-]{16,}|GR1348941[A-Za-z0-9_-]{20,})",
    ),
    token(
        "bitbucket-token",
        &["atbb", "atctt", "atatt", "atstt"],
        r"(?:ATBB[A-Za-z0-9]{20,}|AT(?:CTT|ATT|STT)3x?[A-Za-z0-9_=-]{40,})",
    ),
    token("npm-token", &["npm_"], r"npm_[A-Za-z0-9]{30,}"),
    token("pypi-token", &["pypi-age"], r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    token("crates-io-token", &["cio"], r"cio[A-Za-z0-9]{32}(?-u:\b)"),
    token("rubygems-token", &["rubygems_"], r"rubygems_[a-f0-9]{40,}"),
    token("nuget-key", &["oy2"], r"oy2[a-z0-9]{43}(?-u:\b)"),
    token("clojars-token", &["clojars_"], r"(?i)CLOJARS_[a-z0-9]{50,}"),
    token(
        "artifactory-token",
        &["akc", "ap5", "ap6", "cmvmd"],
        r"(?:AKC[A-Za-z0-9]{10,}[0-9][A-Za-z0-9]*|AP[0-9A-F]{6}[A-Za-z0-9]{8,}|cmVmdGtuO[A-Za-z0-9+/=_-]{40,})",
    ),
    token("docker-token", &["dckr_"], r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    token("sourcegraph-token", &["sgp_", "sgs_"], r"sg[ps]_(?:[A-Za-z0-9]{1,20}_)?[A-Fa-f0-9]{40}(?-u:\b)"),
    token("pulumi-token", &["pul-"], r"pul-[a-f0-9]{40}(?-u:\b)"),
    token("buildkite-token", &["bkua_"], r"bkua_[a-z0-9]{40,}"),
    token("circleci-token", &["ccipat_"], r"CCIPAT_[A-Za-z0-9_]{30,}"),
    token("sonar-token", &["squ_", "sqp_", "sqa_"], r"sq[upa]_[a-f0-9]{40}(?-u:\b)"),
    token("postman-key", &["pmak-", "pmat-"], r"PM(?:AK|AT)-[A-Za-z0-9-]{20,}"),
    token("readme-key", &["rdme_"], r"rdme_[a-z0-9]{60,}"),
    token("octopus-key", &["api-"], r"API-[A-Z0-9]{25,27}(?-u:\b)"),
    token("infracost-key", &["ico-"], r"ico-[A-Za-z0-9]{32}(?-u:\b)"),
    // Cloud providers.
    token(
        "aws-key",
        &["akia", "asia", "abia", "acca", "a3t"],
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)",
    ),
    token(
        "aws-bedrock-key",
        &["absk", "bedrock-api-key-"],
        r"(?:ABSK[A-Za-z0-9+/]{90,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{12,})",
    ),
    token("aws-mws-key", &["amzn.mws."], r"amzn\.mws\.[0-9a-f-]{30,}"),
    token("google-key", &["aiza"], r"AIza[A-Za-z0-9_-]{35,}"),
    token(
        "google-oauth",
        &["gocspx-", "ya29.", "1//0"],
        r"(?:GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,})",
    ),
    token("azure-secret", &["q~"], r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    part(
        "azure-key",
        &["accountkey", "sharedaccesskey", "sharedsecret", "accesskey="],
        r"(?i)(?:accountkey|sharedaccesskey|sharedsecret|accesskey)=([A-Za-z0-9+/]{20,}={0,2})",
    ),
    token(
        "azure-key",
        &["acdb", "+ast", "+acr", "azc", "apim", "azfu", "azse", "jqqj99"],
        r"[A-Za-z0-9+/]{30,76}(?:\+?A(?:CDb|StT?|RmC)|\+ACR|AzC[Aa]|APIM|AzFu|AzSe|JQQJ99)[A-Za-z0-9+/]{2,}={0,2}",
    ),
    token("azure-devops-token", &["azdo"], r"[A-Za-z0-9]{70,80}AZDO[A-Za-z0-9]{4}"),
    token("alibaba-key", &["ltai"], r"LTAI[A-Za-z0-9]{16,24}(?-u:\b)"),
    token("tencent-key", &["akid"], r"AKID[A-Za-z0-9]{28,}"),
    token("ibm-key", &["apikey-"], r"ApiKey-[a-f0-9-]{36}"),
    token("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{40,}"),
    token("heroku-key", &["hrku-"], r"HRKU-[A-Za-z0-9_-]{30,}"),
    token(
        "fly-token",
        &["fo1_", "fm1_", "fm2_", "fm1r_", "fm1a_"],
        r"(?:fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/=,_-]{60,})",
    ),
    token("cloudflare-key", &["v1.0-"], r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"),
    token("scalingo-token", &["tk-us-"], r"tk-us-[A-Za-z0-9_-]{40,}"),
    token("render-key", &["rnd_"], r"rnd_[A-Za-z0-9]{28,}"),
    token("netlify-token", &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"], r"nf[pcoub]_[A-Za-z0-9_]{36}(?-u:\b)"),
    token("vercel-token", &["vcp_", "vck_"], r"vc[pk]_[A-Za-z0-9]{24,}"),
    token("supabase-key", &["sbp_", "sb_secret_"], r"(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    token("planetscale-token", &["pscale_"], r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9=._-]{30,}"),
    token("databricks-token", &["dapi"], r"dapi[a-f0-9]{32}(?:-\d+)?(?-u:\b)"),
    token("akamai-key", &["akab-"], r"akab-[A-Za-z0-9]{16}-[A-Za-z0-9]{16}"),
    token(
        "yandex-key",
        &["aqvn", "t1.", "ajev", "yca", "y0_"],
        r"(?:AQVN[A-Za-z0-9_-]{30,}|t1\.[A-Z0-9a-z_-]+={0,2}\.[A-Za-z0-9_-]{80,}={0,2}|YC[a-zA-Z0-9_-]{38}(?-u:\b)|y[0-3]_[A-Za-z0-9_-]{50,})",
    ),
    token("openshift-token", &["sha256~"], r"sha256~[A-Za-z0-9_-]{43}(?-u:\b)"),
    part(
        "kubernetes-secret",
        &["client-key-data", "certificate-authority-data"],
        r"client-key-data:\s*([A-Za-z0-9+/=]{40,})",
    ),
    part("kubeadm-token", &["kubeadm", "--token"], r"--token[ =]([a-z0-9]{6}\.[a-z0-9]{16})(?-u:\b)"),
    // Infrastructure.
    token("vault-token", &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    token("vault-token", &["s.", "b."], r"[sbr]\.[A-Za-z0-9]{24}(?-u:\b)"),
    token("terraform-token", &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,}"),
    token(
        "doppler-token",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",
    ),
    token(
        "onepassword-key",
        &["a3-", "ops_eyj"],
        r"(?:A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}|ops_eyJ[A-Za-z0-9+/=_-]{100,})",
    ),
    token("infisical-token", &["st."], r"st\.[a-f0-9]{24}\.[a-f0-9]{32}\.[a-f0-9]{32}"),
    token("tailscale-key", &["tskey-"], r"tskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    token("dnkey", &["dnkey-"], r"dnkey-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}"),
    token("harness-token", &["pat.", "sat."], r"[ps]at\.[A-Za-z0-9_-]{22}\.[a-f0-9A-Z]{24}\.[A-Za-z0-9]{20}"),
    token("prefect-key", &["pnu_", "pnb_"], r"pn[ub]_[A-Za-z0-9]{36}(?-u:\b)"),
    token("settlemint-token", &["sm_aat_", "sm_pat_", "sm_sat_"], r"sm_[aps]at_[A-Za-z0-9]{16,}"),
    token("duffel-token", &["duffel_"], r"duffel_(?:test|live)_[A-Za-z0-9_=-]{30,}"),
    // Model providers.
    token("anthropic-key", &["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{20,}"),
    token("openrouter-key", &["sk-or-"], r"sk-or-[A-Za-z0-9_-]{20,}"),
    token("openai-key", &["sk-"], r"sk-(?:[A-Za-z]{2,12}-)?[A-Za-z0-9_-]{18,}"),
    token("groq-key", &["gsk_"], r"gsk_[A-Za-z0-9]{20,}"),
    token("xai-key", &["xai-"], r"xai-[A-Za-z0-9]{40,}"),
    token("huggingface-token", &["hf_", "api_org_"], r"(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,})"),
    token("replicate-token", &["r8_"], r"r8_[A-Za-z0-9]{30,}"),
    token("perplexity-key", &["pplx-"], r"pplx-[A-Za-z0-9]{30,}"),
    token(
        "model-key",
        &["tvly-", "fw_", "pcsk_", "jina_", "nvapi-", "lsv2_", "csk-", "voyage-", "pa-"],
        r"(?:tvly-[A-Za-z0-9-]{20,}|fw_[A-Za-z0-9]{20,}|pcsk_[A-Za-z0-9_]{30,}|jina_[A-Za-z0-9_-]{40,}|nvapi-[A-Za-z0-9_-]{40,}|lsv2_[ps][tk]_[a-f0-9_]{30,}|csk-[a-z0-9]{40,}|pa-[A-Za-z0-9_-]{43}(?-u:\b))",
    ),
    // Identity and messaging.
    token(
        "slack-token",
        &["xox", "xapp-", "xwfp-"],
        r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}[0-9][A-Za-z0-9-]*|xapp-\d-[A-Za-z0-9-]{12,}|xwfp-[A-Za-z0-9-]{12,})",
    ),
    token(
        "slack-webhook",
        &["hooks.slack.com/", "hooks.slack-gov.com/"],
        r"(?:https?://)?hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,}",
    ),
    part(
        "discord-webhook",
        &["/api/webhooks/"],
        r"discord(?:app)?\.com/api/webhooks(/[0-9]{15,}/[A-Za-z0-9_-]{20,})",
    ),
    // A Discord or Atlassian id in base64: groups of three digits, then the secret part.
    part(
        "discord-token",
        &[],
        r"(?-u:\b)((?:[MNO][DTjz][AEIMQUYcgk][wxyz0-5]){4,6}[A-Za-z0-9_-]{0,6}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
    ),
    part(
        "atlassian-token",
        &[],
        r"(?-u:\b)((?:[MNO][DTjz][AEIMQUYcgk][wxyz0-5]){4}O[g-v][A-Za-z0-9+/]{26})(?-u:\b)",
    ),
    token(
        "teams-webhook",
        &["office.com/webhook", "office365.com/webhook"],
        r"https://(?:[a-z0-9]+\.webhook|outlook)\.office(?:365)?\.com/webhook(?:b2)?/[A-Za-z0-9@/_-]{40,}",
    ),
    token("telegram-token", &[":a"], r"[0-9]{5,16}:A[A-Za-z0-9_-]{34}(?-u:\b)"),
    token("twilio-key", &["ac", "sk"], r"(?:AC|SK)[a-f0-9]{32}(?-u:\b)"),
    token("sendgrid-key", &["sg."], r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),
    token("brevo-key", &["xkeysib-", "xsmtpsib-"], r"x(?:key|smtp)sib-[a-f0-9]{40,}-[A-Za-z0-9]{10,}"),
    token("mailchimp-key", &["-us"], r"[0-9a-f]{32}-us[0-9]{1,2}(?-u:\b)"),
    token("mailgun-key", &["key-", "pubkey-"], r"(?:pub)?key-[0-9a-f]{32}(?-u:\b)"),
    token("mailgun-key", &["-"], r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?-u:\b)"),
    token("facebook-token", &["|"], r"[0-9]{14,17}(?:\||%7[Cc])[A-Za-z0-9_-]{26,}"),
    token("facebook-token", &["eaa"], r"EAA[A-Za-z0-9]{60,}"),
    token("twitter-bearer", &["aaaaaaaaaa"], r"A{20,22}[A-Za-z0-9%]{60,}"),
    token("linear-key", &["lin_api_", "lin_oauth_"], r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    token(
        "notion-token",
        &["ntn_", "secret_"],
        r"(?:ntn_[0-9]{8,}[A-Za-z0-9]{30,}|secret_[A-Za-z0-9]{43})(?-u:\b)",
    ),
    token("airtable-token", &["pat"], r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}(?-u:\b)"),
    token("figma-token", &["figd_", "fio-u-"], r"(?:figd_[A-Za-z0-9_-]{30,}|fio-u-[A-Za-z0-9_=-]{50,})"),
    token("dropbox-token", &["sl."], r"sl\.(?:u\.)?[A-Za-z0-9_=-]{60,}"),
    token("typeform-token", &["tfp_"], r"tfp_[A-Za-z0-9_.=-]{40,}"),
    // Payment and shops.
    token(
        "stripe-key",
        &[
            "sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "pk_live_", "pk_test_",
            "whsec_",
        ],
        r"(?:(?:[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,})|whsec_[A-Za-z0-9+/=]{24,})",
    ),
    token("square-token", &["sq0", "eaaa"], r"(?:sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|EAAA[A-Za-z0-9_=-]{56,})"),
    token(
        "shopify-token",
        &["shpat_", "shpca_", "shppa_", "shpss_", "shptka_"],
        r"shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32,}",
    ),
    token(
        "payment-key",
        &["shippo_", "flwseck", "flwpubk", "ezak", "eztk", "live_", "test_", "access-"],
        r"(?:shippo_(?:live|test)_[a-fA-F0-9]{40}|FLW(?:SECK|PUBK)(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?|EZ[AT]K[A-Za-z0-9]{54}|(?:live|test)_(?:pub_)?[a-f0-9]{31,35}(?-u:\b)|access-(?:sandbox|development|production)-[0-9a-f-]{36})",
    ),
    token(
        "paypal-token",
        &["access_token$"],
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}",
    ),
    token("maxmind-key", &["_mmk"], r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    // Monitoring.
    token(
        "newrelic-key",
        &["nrak-", "nrjs-", "nrii-", "nriq-", "nrra-", "nral"],
        r"(?:NR(?:AK|II|IQ|RA)-[A-Za-z0-9_-]{20,}|NRJS-[a-f0-9]{19}|[a-f0-9]{36}NRAL)(?-u:\b)",
    ),
    token(
        "grafana-token",
        &["glc_", "glsa_", "eyjr"],
        r"(?:glc_[A-Za-z0-9+/]{32,}={0,2}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|eyJrIjoi[A-Za-z0-9+/_-]{40,}={0,3})",
    ),
    token(
        "sentry-token",
        &["sntrys_", "sntryu_"],
        r"(?:sntrys_eyJ[A-Za-z0-9+/=_-]{40,}|sntryu_[a-f0-9]{64})",
    ),
    token("dynatrace-token", &["dt0"], r"dt0[a-z][0-9]{2}\.[A-Z0-9a-z]{24}\.[A-Z0-9a-z]{64}"),
    token(
        "monitor-key",
        &["phx_", "phc_", "hb_live_", "logfire"],
        r"(?:ph[xc]_[A-Za-z0-9]{40,}|pylf_v\d_[a-z]+_[A-Za-z0-9]{40,})",
    ),
    token("adobe-secret", &["p8e-"], r"p8e-[A-Za-z0-9]{32}(?-u:\b)"),
    token("mapbox-token", &["pk.", "sk.", "tk."], r"[pst]k\.[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}"),
    token(
        "authress-key",
        &["sc_", "ext_", "scauth_", "authress_"],
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}",
    ),
    token("contentful-token", &["cfpat-"], r"CFPAT-[A-Za-z0-9_-]{40,}"),
    token("hubspot-token", &["pat-na", "pat-eu"], r"pat-(?:na|eu)[0-9]-[a-f0-9-]{36}"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles_and_captures_one_secret() {
        for shape in all() {
            assert!(shape.regex().captures_len() >= 2, "{} has no group", shape.kind);
        }
    }

    #[test]
    fn hints_and_kinds_are_what_the_prefilter_and_the_marks_expect() {
        for shape in all() {
            assert!(shape.hints.iter().all(|hint| *hint == hint.to_lowercase()), "{}", shape.kind);
            assert!(
                shape
                    .kind
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit())
            );
        }
    }
}
