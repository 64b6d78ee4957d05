//! Diagnostics: the mistakes in a plan, described for its author.
//!
//! A faulty plan is never an `Err`: parsing returns a plan and a list of diagnostics. One struct feeds every
//! renderer (terminal, JSON, SARIF). The page of a code is a Markdown file in `diagnostic/`; the texts of all
//! diagnostics are in [`say`].
//!
//! **Invariant:** a released code never changes its meaning.

use std::fmt;

use crate::model::plan::Span;

pub mod say;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// One line, lowercase, no full stop.
    pub message: String,
    pub span: Span,
    /// A sentence that says what to do.
    pub hint: Option<String>,
    pub fix: Option<Fix>,
}

impl Diagnostic {
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), message: message.into(), span, hint: None, fix: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, replacement: replacement.into() });
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// An edit that removes the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub span: Span,
    pub replacement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The plan cannot be approved.
    Error,
    /// The plan can be approved, but a reader should know this.
    Warning,
    /// A recommendation.
    Advice,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "advice",
        }
    }
}

/// Defines all codes in one table, so that none can lack its number, severity, title or page.
macro_rules! codes {
    ($($name:ident = $number:literal $severity:ident $title:literal,)*) => {
        /// A code such as `P012`, which a person types after `--explain`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($name,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            pub fn id(self) -> &'static str {
                match self { $(Code::$name => $number,)* }
            }

            /// Returns the severity of the code.
            pub fn severity(self) -> Severity {
                match self { $(Code::$name => Severity::$severity,)* }
            }

            /// Returns the subject in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// Returns the whole page for `--explain`.
            pub fn page(self) -> &'static str {
                match self { $(Code::$name => include_str!(concat!("diagnostic/", $number, ".md")),)* }
            }
        }
    };
}

codes! {
    // The file as bytes.
    TooLarge = "P001" Error "the plan is too large",
    NotText = "P002" Error "the plan is not UTF-8 text",
    Invisible = "P003" Error "an invisible or control character",
    NonAscii = "P004" Warning "a character that may not be the one it looks like",
    HiddenHtml = "P005" Warning "HTML in a step",
    Empty = "P006" Error "the plan is empty",
    Secret = "P007" Error "a secret in the plan",

    // Frontmatter.
    NoFrontmatter = "P010" Error "no frontmatter",
    FrontmatterOpen = "P011" Error "the frontmatter is never closed",
    FrontmatterInvalid = "P012" Error "the frontmatter is not valid YAML",
    FrontmatterUnknown = "P013" Warning "an unknown key in the frontmatter",
    FrontmatterValue = "P014" Error "a value the frontmatter does not allow",
    FrontmatterDoubled = "P015" Error "a second frontmatter",
    NoStatus = "P016" Error "no status in the frontmatter",

    // Headings.
    NoTitle = "P020" Warning "the plan has no title",
    NoSteps = "P021" Error "the plan has no steps",
    StepRange = "P022" Error "one heading for many steps",
    StepHeading = "P023" Error "a heading that is not a step",
    StepNumber = "P024" Error "step numbers are not consecutive",
    SectionDoubled = "P025" Error "a section appears twice",
    Underlined = "P026" Error "text that became a heading",
    StepLevel = "P027" Warning "a numbered heading at another level",
    FenceOpen = "P028" Error "a fence that is never closed",

    // Fields.
    FieldUnknown = "P030" Error "a misspelt field",
    FieldDoubled = "P031" Error "a field appears twice",
    FieldValue = "P032" Error "a value that cannot be read",
    FieldMisplaced = "P033" Warning "a field where fields are not read",
    TextUnread = "P034" Warning "text that provost does not read",
    FieldForm = "P035" Error "a field that is not written as one",
    SubscriptionForm = "P036" Error "a subscription that cannot be read",
    NoTask = "P037" Error "a step without a task",
    NoTarget = "P038" Error "a step without a target",
    NoContract = "P039" Error "a step without a contract",

    // Contracts as they are written.
    ContractForm = "P040" Error "a contract that is not a shell block",
    ContractEmpty = "P041" Error "an empty contract",
    Expectation = "P042" Error "an expectation that cannot be read",
    RegexInvalid = "P043" Error "an invalid regular expression",
    PostconditionCheck = "P044" Error "a postcondition without a check",
    ModelDecides = "P045" Warning "a model decides",
    WeakKind = "P046" Warning "a person decides",
    NotCarriedOut = "P047" Error "not supported by this version",
    TimeoutZero = "P048" Error "a time-out of zero",
    Passing = "P049" Warning "a contract that a later step may break",

    AgentNotStartable = "P090" Warning "an agent whose program cannot be started",
    JudgeUnfit = "P087" Error "no role can judge",

    // Contracts as shell.
    ShellSyntax = "P050" Error "bash does not accept the contract",
    MaskedExit = "P051" Warning "the exit code is thrown away",
    ConstantExit = "P052" Warning "a contract that cannot fail",
    PipeHides = "P053" Warning "a pipe hides the exit code",
    Background = "P054" Warning "a check in the background",
    LastDecides = "P055" Warning "only the last command decides",
    Placeholder = "P056" Warning "an unfilled placeholder",
    WeakContract = "P057" Warning "a contract that is easy to satisfy",
    ToolMissing = "P058" Warning "a tool that is not on PATH",
    CheckUnknown = "P092" Error "a check that the configuration does not have",
    OtherCommands = "P091" Error "other commands beside tests that may fail",
    RecipeUnknown = "P093" Error "a recipe that `provost-check` does not have",
    NoBash = "P059" Warning "no bash to check the contracts with",

    // Contracts as they run, found by `provost verify --deep`.
    ReachesNetwork = "P094" Warning "a contract that reaches for the network",
    ReadsClock = "P095" Advice "a contract that reads the clock",
    UsesChance = "P096" Warning "a contract that uses random values",
    WritesTree = "P097" Warning "a contract that changes its files",
    UsesGit = "P098" Advice "a contract that uses git",
    CannotRun = "P099" Warning "a contract that cannot be run here",

    // Context and order.
    FileMissing = "P060" Warning "a subscription to a file that does not exist",
    FileLater = "P061" Error "a subscription to a file a later step makes",
    TopicMissing = "P062" Warning "a subscription to an unknown topic",
    NeedsUnknown = "P063" Error "needs a step that does not exist",
    NeedsLater = "P064" Error "needs a later step",
    StepCycle = "P065" Error "steps that wait for each other",
    PlanUnknown = "P066" Error "depends on an unknown plan",
    PlanCycle = "P067" Error "plans that wait for each other",
    TargetUnknown = "P068" Error "a target without an agent",
    NoTargets = "P069" Warning "no agents are configured",

    // Permissions to change files.
    TouchesOpen = "P070" Warning "the agent could edit its own checks",
    GlobInvalid = "P071" Error "an invalid glob",
    WritesTests = "P072" Advice "a step that writes its own checks",
    HiddenInSight = "P073" Warning "a hidden contract that can be seen",
    TouchesOutside = "P074" Warning "a step that touches more than its plan",
    TouchesIgnored = "P075" Advice "`touches` names files that git ignores",
    PathUnseen = "P078" Warning "a path that a check cannot see",
    SecretUnfit = "P079" Error "a secret that a check cannot get",

    // Money, size and taste.
    NoBudget = "P080" Advice "no budget",
    BudgetZero = "P081" Error "a budget of zero",
    BudgetTight = "P082" Warning "an unlikely budget",
    StepCount = "P083" Advice "an unusual number of steps",
    VagueTask = "P084" Advice "a vague task",
    NoOnFail = "P085" Advice "no on_fail",
    BudgetAbove = "P086" Warning "a step's budget above the plan's",
}

impl Code {
    /// Finds a code such as `P012`, in either case.
    pub fn find(id: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id.trim()))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Returns the page of a code: its meaning, a wrong and a right example, and the reason.
pub fn explain(code: &str) -> Option<&'static str> {
    Code::find(code).map(Code::page)
}
