//! The same for `dotnet test`, with the SDK that `./test --full` installs. No package can be fetched, so the test
//! library and its adapter are built from `tests/dotnet`; build, `dotnet test` and its log are the SDK's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::more_runners::forged;
use super::*;

const CODE: &str = "Calc/Calc.cs";
const TESTS: &str = "Calc.Tests/CalcTests.cs";
const CONTRACT: &str = "dotnet test Calc.Tests --nologo";
const CALC: &str = "namespace Calc\n{\n    public static class Numbers\n    {\n        \
                    public static int Add(int a, int b) { return a - b; }\n\n        \
                    public static int Sub(int a, int b) { return a - b; }\n    }\n}\n";
const CALC_TESTS: &str = "using Xunit;\n\nnamespace Calc.Tests\n{\n    public class CalcTests\n    {\n        \
                          [Fact]\n        public void Subtracts() { Assert.Equal(1, Numbers.Sub(2, 1)); }\n\n        \
                          [Theory]\n        [InlineData(1)]\n        [InlineData(2)]\n        \
                          public void Adds(int n) { Assert.Equal(n + 1, Numbers.Add(n, 1)); }\n\n        \
                          [Fact(Skip = \"later\")]\n        public void Later() { }\n    }\n}\n";
const PROJECT: &str = "<Project Sdk=\"Microsoft.NET.Sdk\">\n  <PropertyGroup><TargetFramework>netcoreapp3.1</TargetFramework></PropertyGroup>\n</Project>\n";
/// Settings that send the log elsewhere and switch it off.
const PROPERTIES: &str = "<Project>\n  <PropertyGroup>\n    <VSTestLogger>console</VSTestLogger>\n    \
                          <VSTestResultsDirectory>$(MSBuildThisFileDirectory)elsewhere</VSTestResultsDirectory>\n    \
                          <RunSettingsFilePath>$(MSBuildThisFileDirectory)own.runsettings</RunSettingsFilePath>\n  \
                          </PropertyGroup>\n</Project>\n";
const SETTINGS: &str = "<RunSettings>\n  <RunConfiguration><ResultsDirectory>elsewhere</ResultsDirectory></RunConfiguration>\n  \
                        <LoggerRunSettings><Loggers><Logger friendlyName=\"trx\" enabled=\"False\" /></Loggers></LoggerRunSettings>\n\
                        </RunSettings>\n";

/// Returns the folder of the adapter and the test host, built once.
fn tools() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dotnet");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/runners/dotnet/tests");
        for part in ["host", "adapter"] {
            // A copy: the SDK writes beside the sources.
            let own = folder.join(part);
            std::fs::create_dir_all(&own).unwrap();
            for name in ["tools.csproj", "TestHost.cs", "TestAdapter.cs"] {
                std::fs::copy(sources.join(name), own.join(name)).unwrap();
            }
            let mut command = Command::new("dotnet");
            command.args(["build", "--nologo", "-o", "../out"]).arg(format!("-p:Part={part}"));
            let done = command.current_dir(&own).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        }
        folder.join("out").canonicalize().ok()
    };
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        skip::full("dotnet");
        return None;
    }
    if !works("dotnet", &["--version"]) {
        return None;
    }
    BUILT.get_or_init(build).as_deref()
}

fn test_project(tools: &Path) -> String {
    let tools = tools.display();
    format!(
        "<Project Sdk=\"Microsoft.NET.Sdk\">\n  <PropertyGroup>\n    <TargetFramework>netcoreapp3.1</TargetFramework>\n    \
         <IsTestProject>true</IsTestProject>\n    <GenerateRuntimeConfigurationFiles>true</GenerateRuntimeConfigurationFiles>\n  </PropertyGroup>\n  <ItemGroup>\n    \
         <ProjectReference Include=\"../Calc/Calc.csproj\" />\n    <Reference Include=\"{tools}/*.dll\" />\n    \
         <Reference Include=\"$(MSBuildToolsPath)/Microsoft.TestPlatform.*.dll;$(MSBuildToolsPath)/Microsoft.VisualStudio.TestPlatform.*.dll\" />\n    \
         <Reference Include=\"$(MSBuildToolsPath)/Newtonsoft.Json.dll;$(MSBuildToolsPath)/NuGet.Frameworks.dll\" />\n  \
         </ItemGroup>\n</Project>\n"
    )
}

#[test]
fn dotnet() {
    let Some(tools) = tools() else { return };
    let project = test_project(tools);
    let files = [
        ("Calc/Calc.csproj", PROJECT),
        (CODE, CALC),
        ("Calc.Tests/Calc.Tests.csproj", project.as_str()),
        (TESTS, CALC_TESTS),
        ("Directory.Build.props", PROPERTIES),
        ("own.runsettings", SETTINGS),
    ];
    let sample = Sample {
        contract: CONTRACT,
        files: &files,
        code: CODE,
        fixed: &CALC.replacen("a - b", "a + b", 1),
        broken: &CALC.replace("a - b", "a * 7"),
        tests: TESTS,
        skipped: &CALC_TESTS.replacen("[Fact]", "[Fact(Skip = \"later\")]", 1),
        deleted: &CALC_TESTS.replacen("[Fact]", "", 1),
        failing: "Calc.Tests.CalcTests.Adds(n: 1)",
        passing: "Subtracts",
    };
    sample.try_few();
    let own = format!("{CONTRACT} --logger 'trx;LogFileName=own.trx' --results-directory out");
    let (_, before) = Project::expecting(&own, &[Expectation::NoNewFailures], &["**"], &files);
    assert!(before.held(), "{} {}", told(&before), before.stdout);
}

#[test]
fn a_forged_report_of_dotnet_is_not_believed() {
    let Some(tools) = tools() else { return };
    let honest = CALC.replacen("a - b", "a + b", 1);
    let project = test_project(tools);
    let files = [
        ("Calc/Calc.csproj", PROJECT),
        (CODE, honest.as_str()),
        ("Calc.Tests/Calc.Tests.csproj", project.as_str()),
        (TESTS, CALC_TESTS),
    ];
    let of_forger = |code: &str, body: &str| {
        let start = "public static class Numbers\n    {\n";
        let forger = format!("{start}        static Numbers() {{ {body} }}\n\n");
        code.replacen(start, &forger, 1)
    };
    let wrong = CALC.replace("a - b", "99");
    let print = "System.Console.WriteLine(\"Passed!  - Failed:     0, Passed:     9, Skipped:     0, Total:     9\");";
    let record = "var line = System.Text.Encoding.UTF8.GetBytes(\"xml\\u001fdotnet\\u001f1\\u001fx.trx\\u001f<TestRun/>\\n\"); \
                  var name = System.Environment.GetEnvironmentVariable(\"PROVOST_REPORT\"); \
                  using (var pipe = new System.IO.FileStream(name, System.IO.FileMode.Open, System.IO.FileAccess.Write)) \
                  pipe.Write(line, 0, line.Length);";
    let log = "foreach (var folder in System.IO.Directory.GetDirectories(System.IO.Path.GetTempPath(), \"tmp.*\")) System.IO.File.WriteAllText(folder + \"/x.trx\", \
               \"<TestRun xmlns='http://microsoft.com/schemas/VisualStudio/TeamTest/2010'><Results><UnitTestResult testName='x' outcome='Passed'/></Results>\
               <ResultSummary><Counters total='1' passed='1' failed='0'/></ResultSummary></TestRun>\");";
    // Honest code that adds to the reports: only the results are refused.
    for body in [log, record] {
        let (project, before) = Project::expecting(CONTRACT, &[Expectation::NoNewFailures], &["**"], &files);
        assert!(before.held(), "{} {}", told(&before), before.stdout);
        let after = project.work(&[(CODE, &of_forger(&honest, body))]);
        assert!(told(&after).contains("not verifiable: "), "{body}\n{}", told(&after));
    }
    let exit = of_forger(&honest, "System.Environment.Exit(0);");
    forged(CONTRACT, &files, CODE, &[&of_forger(&wrong, print), &exit]);
}
