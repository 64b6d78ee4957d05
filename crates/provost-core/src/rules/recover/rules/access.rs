//! Rules for missing access: credentials, rights, and quotas that only a person can raise.

use super::{FailureRule, INPUT, PERMISSION};

/// Messages of provost itself: of its meter, in a response like a provider's, and of a driver.
pub(super) const OURS: &[FailureRule] = &[
    FailureRule {
        name: "budget-used-up",
        reason: "the budget for models is used up, by the meter's count",
        any: &[r"provost: the budget is (?:used up|in dollars)"],
        quota: true,
        configure: "the budget of the plan",
        matches: &["API Error: 402 provost: the budget is used up: 2080 of 2000 tokens"],
        misses: &["402 Payment Required", "the budget is used up"],
        ..PERMISSION
    },
    FailureRule {
        name: "agent-asks",
        reason: "the agent asks for a permission that its role leaves to a person",
        any: &[r"the agent asks for permission, and nobody is there to give it"],
        configure: "`permissions = \"allow\"` in the agent's section of provost.toml, if it may do so",
        matches: &["the agent asks for permission, and nobody is there to give it: Write a.txt"],
        misses: &["ask for permission before you write"],
        ..PERMISSION
    },
    FailureRule {
        name: "agent-cannot-start",
        reason: "the agent's program could not be started in the sandbox",
        any: &[r"cannot start the agent's program\b"],
        stops_agent: true,
        matches: &["error: cannot start the agent's program `claude` because: No such file or directory"],
        misses: &["cannot start the engine"],
        ..INPUT
    },
];

/// Reads like a rate limit, but waiting does not help.
pub(super) const QUOTA: &[FailureRule] = &[FailureRule {
    name: "quota-exhausted",
    reason: "the account has nothing left to spend",
    any: &[
        r"\binsufficient_quota\b",
        r"exceeded your current quota",
        r"credit balance is too low",
        r"billing hard limit has been reached",
        r"\bbilling_hard_limit_reached\b",
        r"insufficient (?:credits?|funds|balance)\b",
        r"\b402 payment required\b",
        r"payment[ _]required",
        r"(?:monthly|usage|spend(?:ing)?) (?:usage )?(?:limit|cap|quota) (?:has been |was )?(?:reached|exceeded)",
        r"account (?:is|has been) (?:suspended|deactivated)",
        r"you have run out of credits",
    ],
    http: &[402],
    quota: true,
    configure: "the plan and the billing details of the model's account",
    matches: &[
        "Error: 429 You exceeded your current quota, please check your plan and billing details",
        "Your credit balance is too low to access the API",
    ],
    misses: &["429 Too Many Requests", "the quota of disk blocks is fine"],
    ..PERMISSION
}];

/// A service rejected the credentials.
pub(super) const CREDENTIALS: &[FailureRule] = &[
    FailureRule {
        name: "ssh-key",
        reason: "the server refused the SSH key",
        any: &[
            r"permission denied \((?:publickey|password|keyboard-interactive|gssapi)",
            r"host key verification failed",
            r"could not open a connection to your authentication agent",
            r"too many authentication failures",
            r"no supported authentication methods available",
            r"unprotected private key file",
            r"(?:git@|ssh: ).{0,120}permission denied",
        ],
        configure: "an SSH key in ~/.ssh or in the agent behind SSH_AUTH_SOCK, which the server accepts",
        matches: &[
            "git@host.example: Permission denied (publickey,password).",
            "Host key verification failed.",
        ],
        misses: &["ssh: connect to host h port 22: Connection refused"],
        ..PERMISSION
    },
    FailureRule {
        name: "git-credentials",
        reason: "git has no credentials for the remote",
        any: &[
            r"could not read (?:username|password) for",
            r"terminal prompts disabled",
            r"fatal: authentication failed for",
            r"support for password authentication was removed",
            r"remote: permission to \S+ denied",
            r"remote: invalid username or (?:password|token)",
            r"remote: http basic: access denied",
            r"protected branch hook declined",
            r"refusing to allow .{1,60} to create or update workflow",
            r"detected dubious ownership in repository",
            r"remote: write access to repository not granted",
            r"you are not allowed to push",
        ],
        configure: "a credential helper of git (git config credential.helper), or GITHUB_TOKEN and the like",
        matches: &[
            "fatal: could not read Username for 'https://host.example': No such device or address",
            "remote: Permission to a/b.git denied to c.",
        ],
        misses: &["fatal: unable to access 'https://h/x.git/': Could not resolve host: h"],
        ..PERMISSION
    },
    FailureRule {
        name: "cloud-credentials",
        reason: "the cloud refused the credentials",
        any: &[
            r"\baccess ?denied(?:exception)?\b.{0,80}\b(?:calling|operation|action|bucket|resource|user|role|perform)",
            r"an error occurred \((?:AccessDenied|UnauthorizedOperation|ExpiredToken|InvalidClientTokenId|SignatureDoesNotMatch|AuthFailure|UnrecognizedClientException)",
            r"unable to locate credentials",
            r"no valid credential sources? (?:for|found)",
            r"could not load credentials from any providers",
            r"could not (?:automatically )?(?:determine|find default) credentials",
            r"application default credentials",
            r"\b(?:security token|token|session|credentials?|login) (?:included in the request )?(?:is|has|have|was) (?:been )?(?:expired|invalid|revoked)",
            r"\bexpired ?token\b",
            r"is not authorized to perform",
            r"\bdoes not have (?:\S+ )?(?:permission|access|authorization)\b",
            r"required '[\w.]+' permission",
            r"\bPERMISSION_DENIED\b",
            r"\bUNAUTHENTICATED\b",
            r"cannot (?:get|list|create|update|patch|delete|watch) (?:resource|path) .{1,200}(?:in api group|at the cluster scope|in the namespace)",
            r"you must be logged in to the server",
            r"please run:? .{1,40}\blogin\b",
            r"(?:run|use|try) ['`\x22]?[\w -]{1,30}\b(?:auth )?login\b['`\x22]? (?:to|first|again)",
            r"you (?:are|'re) not logged in",
            r"\b(?:not|must be|need to be) (?:logged in|authenticated|signed in)\b",
        ],
        configure: "the credentials of the cloud in its own file (~/.aws/credentials, ~/.config/gcloud, ~/.kube/config) or variables",
        matches: &[
            "An error occurred (ExpiredToken) when calling the ListBuckets operation: The provided token has expired",
            "pods is forbidden: User \"dev\" cannot list resource \"pods\" in API group \"\" in the namespace \"prod\"",
            "To get started with the CLI, please run:  gh auth login",
        ],
        misses: &["ok: the user is authorized to perform the action", "logged in as dev"],
        ..PERMISSION
    },
    FailureRule {
        name: "registry-login",
        reason: "the registry needs a login",
        any: &[
            r"authentication required",
            r"\bdenied: requested access to the resource is denied",
            r"pull access denied for",
            r"no basic auth credentials",
            r"incorrect username or password",
            r"\bENEEDAUTH\b",
            r"npm (?:ERR!|error) code E40[13]",
            r"npm (?:ERR!|error) (?:code )?EOTP",
            r"please (?:paste the token|run .{1,20}login)",
            r"no (?:upload )?token found",
            r"invalid or non-existent authentication information",
            r"unauthorized: ",
            r"\bnot authorized to (?:access|pull|push|publish)",
        ],
        configure: "the registry's login in its own file (~/.docker/config.json, ~/.npmrc, ~/.cargo/credentials.toml, ~/.pypirc)",
        matches: &["denied: requested access to the resource is denied", "npm error code ENEEDAUTH"],
        misses: &["the request was authorized: proceeding"],
        ..PERMISSION
    },
    FailureRule {
        name: "api-key",
        reason: "the API refused the key",
        any: &[
            r"\b(?:invalid|incorrect|missing|no|expired|unknown|bad) (?:x-)?api[ _-]?key\b",
            r"api[ _-]?key (?:is|was) (?:not (?:set|valid|found|provided|configured)|missing|invalid|required|expired)",
            r"\bauthentication_error\b",
            r"\binvalid_api_key\b",
            r"(?:set|export|provide|define|configure) (?:the |your |an? )?(?:environment variable )?[`'\x22]?[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|PASSWORD|KEY)\b",
            r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|PASSWORD)\b[`'\x22]? (?:environment variable )?(?:is|was|must be|not|needs)\b",
            r"\bbad credentials\b",
            r"\binvalid (?:auth(?:entication|orization)? )?(?:token|credentials?|signature|grant)\b",
            r"\binvalid_grant\b",
            r"login (?:failed|incorrect)\b",
            r"\b(?:authentication|authorization) (?:failed|failure|error)\b",
            r"password authentication failed",
            r"access denied for user",
            r"NOAUTH authentication required",
            r"\bWRONGPASS\b",
            r"no password supplied",
        ],
        configure: "the API key, in the variable that its client reads",
        matches: &[
            "Error: OPENAI_API_KEY is not set",
            "{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}",
        ],
        misses: &["the API key of the map is a string", "primary key missing"],
        ..PERMISSION
    },
    FailureRule {
        name: "http-unauthorized",
        reason: "the server refused access (401, 403)",
        any: &[r"\b401 \(?unauthorized", r"\b403 \(?forbidden", r"\b407 proxy authentication required"],
        http: &[401, 403, 407],
        configure: "credentials for that server, in the file or the variable that its client reads",
        matches: &["HTTP/1.1 403 Forbidden", "curl: (22) The requested URL returned error: 401"],
        misses: &["line 401: unexpected token", "403 tests passed"],
        ..PERMISSION
    },
];

/// Rights on this machine. An agent that made the file can often fix it.
pub(super) const LOCAL: &[FailureRule] = &[
    FailureRule {
        name: "root-needed",
        reason: "it needs permissions that the user of provost does not have",
        any: &[
            r"are you root\?",
            r"(?:must be|need to be|should be) (?:run as |running as )?(?:root|superuser|administrator)\b",
            r"(?:requires|need|needs) (?:root|superuser|administrator|elevated) (?:privileges?|permissions?|access)",
            r"(?:requested operation|this operation) requires (?:elevation|superuser)",
            r"sudo: a (?:password|terminal) is required",
            r"sudo: no tty present",
            r"is not in the sudoers file",
            r"run this command again as root",
            r"try running .{1,60} as (?:root|administrator)",
            r"superuser access",
            r"you (?:cannot|can't) perform this operation unless you are root",
            r"externally-managed-environment",
            r"must be superuser",
        ],
        configure: "the permissions it needs, for the user that runs provost",
        matches: &[
            "E: Unable to lock the administration directory, are you root?",
            "sudo: a password is required",
        ],
        misses: &["the root of the tree is empty"],
        ..PERMISSION
    },
    FailureRule {
        name: "docker-socket",
        reason: "the docker daemon refused access",
        any: &[
            r"permission denied while trying to connect to the docker daemon",
            r"docker\.sock: connect: permission denied",
        ],
        configure: "membership in the group of /var/run/docker.sock",
        matches: &["dial unix /var/run/docker.sock: connect: permission denied"],
        misses: &["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."],
        ..PERMISSION
    },
    FailureRule {
        name: "file-permission",
        reason: "no permission for a file or a folder",
        any: &[
            r"(?m)(?::|\)|-) \(?(?:\d+: )?permission denied\)?",
            r"(?m)^permission denied\b",
            r"\bEACCES\b",
            r"\bEPERM\b",
            r"(?:error|exception|failed|warn(?:ing)?)\b.{0,200}\bpermission denied",
            r"\[errno 13\]",
            r"\[errno 1\] operation not permitted",
            r"operation not permitted",
            r"\bPermissionError\b",
            r"AccessDeniedException",
            r"java\.nio\.file\.AccessDenied",
            r"access is denied",
            r"os error 13\b",
            r"\bmissing write access to\b",
            r"insufficient permissions?\b",
            r"not permitted to\b",
            r"(?:is|are) not writable\b",
            r"permission denied for (?:table|schema|relation|database|sequence)",
            r"only allowed for (?:owner|superuser)",
        ],
        unless: &[r"(?m)^\s*(?:ok|pass(?:ed)?|--- pass)\b.{0,200}permission denied"],
        configure: "the permissions of the named file",
        mendable: true,
        matches: &[
            "mkdir: cannot create directory '/srv/x': Permission denied",
            "EACCES: permission denied, open '/etc/hosts'",
        ],
        misses: &["test permission_denied_is_reported ... ok", "the permission was granted"],
        ..PERMISSION
    },
];
