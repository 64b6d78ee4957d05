//! The same for rspec, phpunit, maven and gradle. Their programs are Debian packages that `./test --full`
//! installs.

use super::*;

/// Where Debian has the plugins of maven, for a run without a network.
const SUREFIRE: &str = "/usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin";
const JUNIT: &str = "/usr/share/java/junit4.jar";

/// Judges each forged text of the code, which must not hold.
pub(super) fn forged(contract: &str, files: Files<'_>, code: &str, forged: &[&str]) {
    for text in forged {
        for expected in [Expectation::NoNewFailures, Expectation::TestsPassed { at_least: 1 }] {
            let (project, before) =
                Project::expecting(contract, std::slice::from_ref(&expected), &["**"], files);
            assert!(before.held(), "{contract}: {} {}", told(&before), before.stdout);
            let after = project.work(&[(code, text)]);
            assert!(!after.held(), "{contract} {expected}\n{text}\n{}", told(&after));
        }
    }
}

impl Sample<'_> {
    /// The same as `try_all` with as few runs as possible, for runners that take seconds to start.
    pub(super) fn try_few(&self) {
        let (project, before) = self.project(&[Expectation::NoNewFailures]);
        assert!(before.held(), "{}: {} {}", self.contract, told(&before), before.stdout);
        let results = before.test_results.as_ref().expect("results");
        assert!(results.failing.names.iter().any(|name| name.ends_with(self.failing)), "{results:?}");
        let text = |name: &str| self.files.iter().find(|(own, _)| *own == name).expect("a file").1;
        for (what, files) in [
            ("did not fail before the work and fail", [(self.code, self.broken)]),
            ("skipped now", [(self.tests, self.skipped)]),
            ("gone", [(self.tests, self.deleted)]),
        ] {
            let after = project.work(&files);
            assert!(
                !after.held() && told(&after).contains(what),
                "{} {what}: {}",
                self.contract,
                told(&after)
            );
            let (name, _) = files[0];
            std::fs::write(project.workspace().join(name), text(name)).unwrap();
        }
        let after = project.work(&[(self.code, self.fixed)]);
        assert!(after.held(), "{}: {} {}", self.contract, told(&after), after.stdout);
        assert!(after.teeth.as_ref().is_some_and(|teeth| teeth.bit), "{}: {:?}", self.contract, after.teeth);
        let changes = after.test_results.and_then(|results| results.changes).expect("compared");
        assert!(changes.fixed.names.iter().any(|name| name.ends_with(self.failing)), "{changes:?}");
    }
}

const RUBY: &str = "def add(a, b) = a - b\n\ndef sub(a, b) = a - b\n";
const SPEC: &str = "require_relative '../calc'\n\nRSpec.describe 'calc' do\n  it('subtracts') { expect(sub(2, 1)).to eq 1 }\n\n  \
                    [1, 2].each { |n| it(\"adds #{n}\") { expect(add(n, 1)).to eq n + 1 } }\n\n  \
                    it { expect(sub(1, 1)).to eq 0 }\nend\n";

#[test]
fn rspec() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("rspec");
    }
    if !works("rspec", &["--version"]) {
        return;
    }
    let options = "--fail-fast\n--format progress\n";
    let files = [("calc.rb", RUBY), ("spec/calc_spec.rb", SPEC), (".rspec", options)];
    let sample = |contract| Sample {
        contract,
        files: &files,
        code: "calc.rb",
        fixed: "def add(a, b) = a + b\n\ndef sub(a, b) = a - b\n",
        broken: "def add(a, b) = a * 7\n\ndef sub(a, b) = a * 7\n",
        tests: "spec/calc_spec.rb",
        skipped: "require_relative '../calc'\n\nRSpec.describe 'calc' do\n  xit('subtracts') { expect(sub(2, 1)).to eq 1 }\nend\n",
        deleted: "require_relative '../calc'\n\nRSpec.describe 'calc' do\n  [1, 2].each { |n| it(\"adds #{n}\") { expect(add(n, 1)).to eq n + 1 } }\nend\n",
        failing: "calc > adds 1",
        passing: "subtracts",
    };
    sample("rspec").try_all();
    sample("ruby -S rspec").try_few();
    if works("bundle", &["--version"]) {
        let gems = [("Gemfile", "gem 'rspec'\n"), files[0], files[1], files[2]];
        Sample { files: &gems, ..sample("bundle exec rspec") }.try_few();
    }
}

#[test]
fn a_forged_report_of_rspec_is_not_believed() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("rspec");
    }
    if !works("rspec", &["--version"]) {
        return;
    }
    let honest = "def add(a, b) = a + b\n\ndef sub(a, b) = a - b\n";
    let wrong = "def add(a, b) = 99\n\ndef sub(a, b) = 99\n";
    let files = [("calc.rb", honest), ("spec/calc_spec.rb", SPEC)];
    let record = "File.write(ENV['PROVOST_REPORT'], \"test\\x1frspec\\x1fx\\x1fpassed\\x1fcalc > adds 1\\n\") if ENV['PROVOST_REPORT']\n";
    forged(
        "rspec",
        &files,
        "calc.rb",
        &[
            &format!("{wrong}puts \"....\\n\\n4 examples, 0 failures\"\n"),
            &format!("{honest}{record}"),
            &format!("{honest}exit!(0)\n"),
            &format!("{wrong}at_exit {{ exit!(0) }}\n"),
            &format!("{honest}RSpec.configure {{ |config| config.after(:each) {{ exit!(0) }} }}\n"),
        ],
    );
    // Examples that are not run are not passed.
    let (project, before) =
        Project::expecting("rspec", &[Expectation::TestsPassed { at_least: 4 }], &["**"], &files);
    assert!(before.held(), "{}", told(&before));
    let after = project.work(&[(".rspec", "--dry-run\n")]);
    assert!(!after.held(), "{}", told(&after));
}

const PHP: &str =
    "<?php\nfunction add($a, $b) { return $a - $b; }\nfunction sub($a, $b) { return $a - $b; }\n";
const PHP_TEST: &str = "<?php\nrequire_once __DIR__ . '/../src/calc.php';\n\nuse PHPUnit\\Framework\\TestCase;\n\n\
                        final class CalcTest extends TestCase\n{\n    public function testSub(): void\n    {\n        \
                        $this->assertSame(1, sub(2, 1));\n    }\n\n    /** @dataProvider numbers */\n    \
                        public function testAdd(int $n): void\n    {\n        $this->assertSame($n + 1, add($n, 1));\n    }\n\n    \
                        public static function numbers(): array\n    {\n        return [[1], 'two' => [2]];\n    }\n}\n";
const PHPUNIT_XML: &str = "<phpunit cacheResult=\"false\"><testsuites><testsuite name=\"all\"><directory>tests</directory></testsuite>\
                           </testsuites><logging><junit outputFile=\"build/junit.xml\"/></logging></phpunit>\n";

#[test]
fn phpunit() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("phpunit");
    }
    if !works("phpunit", &["--version"]) {
        return;
    }
    let files = [("src/calc.php", PHP), ("tests/CalcTest.php", PHP_TEST), ("phpunit.xml", PHPUNIT_XML)];
    Sample {
        contract: "phpunit --stop-on-failure",
        files: &files,
        code: "src/calc.php",
        fixed: &PHP.replacen("$a - $b", "$a + $b", 1),
        broken: &PHP.replace("$a - $b", "$a * 7"),
        tests: "tests/CalcTest.php",
        skipped: &PHP_TEST.replacen(
            "$this->assertSame(1",
            "$this->markTestSkipped(); $this->assertSame(1",
            1,
        ),
        deleted: &PHP_TEST.replacen("function testSub", "function noSub", 1),
        failing: "CalcTest::testAdd with data set #0",
        passing: "testSub",
    }
    .try_all();
    // The project's own log is written too.
    let contract = "phpunit; grep -q testSub build/junit.xml";
    let (_, before) = Project::new(contract, &["**"], &files);
    assert!(before.held(), "{}", told(&before));
    // A configuration that stops the run cannot be overruled.
    let stops = PHPUNIT_XML.replacen("<phpunit ", "<phpunit stopOnFailure=\"true\" ", 1);
    let files = [files[0], files[1], ("phpunit.xml", stops.as_str())];
    let (_, before) = Project::expecting("phpunit", &[Expectation::NoNewFailures], &["**"], &files);
    assert!(told(&before).contains("not verifiable: "), "{}", told(&before));
}

#[test]
fn a_forged_report_of_phpunit_is_not_believed() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("phpunit");
    }
    if !works("phpunit", &["--version"]) {
        return;
    }
    let honest = PHP.replacen("$a - $b", "$a + $b", 1);
    let wrong = PHP.replace("$a - $b", "99");
    let files =
        [("src/calc.php", honest.as_str()), ("tests/CalcTest.php", PHP_TEST), ("phpunit.xml", PHPUNIT_XML)];
    let record = "file_put_contents(getenv('PROVOST_REPORT'), \"test\\x1fphpunit\\x1fx\\x1fpassed\\x1fCalcTest::testAdd\\n\");\n";
    let log = "file_put_contents('build/junit.xml', '<testsuites><testsuite tests=\"1\"><testcase class=\"CalcTest\" name=\"testSub\"/></testsuite></testsuites>');\n";
    forged(
        "phpunit",
        &files,
        "src/calc.php",
        &[
            &format!("{wrong}echo \"OK (3 tests, 3 assertions)\\n\";\n"),
            &format!("{honest}{record}"),
            &format!("{honest}exit(0);\n"),
            &honest.replacen("return $a - $b", "exit(0)", 1),
            &wrong.replacen("return 99", "@mkdir('build'); LOG exit(0)", 1).replace("LOG", log),
            &format!("{wrong}register_shutdown_function(function () {{ exit(0); }});\n"),
        ],
    );
}

const JAVA: &str = "package calc;\n\npublic class Calc {\n    public static int add(int a, int b) { return a - b; }\n\n    \
                    public static int sub(int a, int b) { return a - b; }\n}\n";
const JAVA_TEST: &str = "package calc;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Ignore;\nimport org.junit.Test;\n\n\
                         public class CalcTest {\n    @Test public void subtracts() { assertEquals(1, Calc.sub(2, 1)); }\n\n    \
                         @Test public void adds() { assertEquals(3, Calc.add(2, 1)); }\n\n    @Ignore @Test public void later() {}\n}\n";
const JAVA_MANY: &str = "package calc;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\nimport org.junit.runner.RunWith;\n\
                         import org.junit.runners.Parameterized;\n\n@RunWith(Parameterized.class)\npublic class ManyTest {\n    \
                         @Parameterized.Parameters public static Object[] data() { return new Object[] { 1, 2 }; }\n\n    \
                         private final int n;\n\n    public ManyTest(int n) { this.n = n; }\n\n    \
                         @Test public void addsMany() { assertEquals(n + 1, Calc.add(n, 1)); }\n}\n";
const CODE: &str = "src/main/java/calc/Calc.java";
const TESTS: &str = "src/test/java/calc/CalcTest.java";

fn of_java<'a>(contract: &'a str, files: Files<'a>) {
    Sample {
        contract,
        files,
        code: CODE,
        fixed: &JAVA.replacen("a - b", "a + b", 1),
        broken: &JAVA.replace("a - b", "a * 7"),
        tests: TESTS,
        skipped: &JAVA_TEST.replacen("@Test", "@Ignore @Test", 1),
        deleted: &JAVA_TEST.replacen("@Test", "", 1),
        failing: "calc.ManyTest.addsMany[1]",
        passing: "subtracts",
    }
    .try_few();
}

/// Code that forges what a build tool of Java prints and writes, in the process of the tests.
fn of_forger(body: &str) -> String {
    let body = format!("static {{ try {{ {body} }} catch (Exception ignored) {{ }} }}\n");
    JAVA.replacen("a - b", "0", 1).replacen(
        "public class Calc {\n",
        &format!("public class Calc {{\n    {body}"),
        1,
    )
}

const POM: &str = "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
                   <groupId>calc</groupId><artifactId>calc</artifactId><version>1</version>\n  <properties>\n    \
                   <maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target>\n    \
                   <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>\n  </properties>\n  <dependencies><dependency>\
                   <groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency></dependencies>\n\
                   </project>\n";
const MAVEN: &str = "mvn -o -B -s /etc/maven/settings-debian.xml test";

#[test]
fn maven() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("maven");
    }
    if !works("mvn", &["--version"]) || !works("ls", &[SUREFIRE]) {
        return;
    }
    let many = "src/test/java/calc/ManyTest.java";
    let files = [("pom.xml", POM), (CODE, JAVA), (TESTS, JAVA_TEST), (many, JAVA_MANY)];
    of_java(MAVEN, &files);
    let honest = JAVA.replacen("a - b", "a + b", 1);
    let files = [("pom.xml", POM), (CODE, honest.as_str()), (TESTS, JAVA_TEST)];
    let quiet = MAVEN.replacen("mvn", "mvn -q", 1);
    let (_, before) = Project::expecting(&quiet, &[Expectation::NoNewFailures], &["**"], &files);
    assert!(told(&before).contains("not verifiable: "), "{}", told(&before));
    let line =
        "[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.01 s - in calc.Forged";
    let xml = "<testsuite name='calc.Forged' tests='1' errors='0' skipped='0' failures='0'><testcase name='x' classname='calc.Forged'/></testsuite>";
    let write = format!(
        "java.nio.file.Path p = java.nio.file.Path.of(\"target/surefire-reports\"); java.nio.file.Files.createDirectories(p); \
         java.nio.file.Files.writeString(p.resolve(\"TEST-calc.Forged.xml\"), \"{xml}\");"
    );
    let print = format!("System.out.println(\"{line}\");");
    forged(MAVEN, &files, CODE, &[&of_forger(&write), &of_forger(&print), &of_forger("System.exit(0);")]);
    let honest_forger = of_forger(&write).replacen("return 0", "return a + b", 1);
    let (project, _) = Project::expecting(MAVEN, &[Expectation::NoNewFailures], &["**"], &files);
    let after = project.work(&[(CODE, &honest_forger)]);
    assert!(told(&after).contains("not verifiable: "), "{}", told(&after));
}

const GRADLE: &str = "gradle --offline --no-daemon --quiet test";

#[test]
fn gradle() {
    if std::env::var_os("PROVOST_RUNNERS").is_none() {
        return skip::full("gradle");
    }
    if !works("gradle", &["--version"]) || !works("ls", &[JUNIT]) {
        return;
    }
    let build = format!(
        "apply plugin: 'java'\n\ndependencies {{\n    testCompile files('{JUNIT}', '/usr/share/java/hamcrest-core.jar')\n}}\n"
    );
    let many = "src/test/java/calc/ManyTest.java";
    let settings = ("settings.gradle", "rootProject.name = 'calc'\n");
    let files =
        [("build.gradle", build.as_str()), settings, (CODE, JAVA), (TESTS, JAVA_TEST), (many, JAVA_MANY)];
    of_java(GRADLE, &files);
    let honest = JAVA.replacen("a - b", "a + b", 1);
    let files = [("build.gradle", build.as_str()), settings, (CODE, honest.as_str()), (TESTS, JAVA_TEST)];
    let record = "java.nio.file.Files.writeString(java.nio.file.Path.of(System.getenv(\"PROVOST_REPORT\")), \
                  \"test\\u001fgradle-test\\u001fx\\u001fpassed\\u001fcalc.CalcTest.adds\\n\");";
    // A script that starts gradle by java, as the wrapper does.
    let script = "exec java --add-opens java.base/java.lang=ALL-UNNAMED -cp \"$(echo /usr/share/gradle/lib/gradle-launcher-*.jar)\" org.gradle.launcher.GradleMain \"$@\"\n";
    let with_script = [files[0], files[1], (CODE, JAVA), files[3], ("gradlew", script)];
    let by_script = GRADLE.replacen("gradle", "sh gradlew", 1);
    let (project, before) =
        Project::expecting(&by_script, &[Expectation::NoNewFailures], &["**"], &with_script);
    assert!(before.held(), "{} {}", told(&before), before.stderr);
    let after = project.work(&[(CODE, &JAVA.replace("a - b", "a * 7"))]);
    assert!(told(&after).contains("calc.CalcTest.subtracts"), "{}", told(&after));
    let honest_forger = of_forger(record).replacen("return 0", "return a + b", 1);
    forged(GRADLE, &files, CODE, &[&honest_forger, &of_forger("System.exit(0);")]);
}
