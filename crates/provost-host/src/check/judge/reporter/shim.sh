#!/bin/sh
# Stands before a program of the same name on the PATH of a check: reports that it starts where it is a test
# runner, sees to it that the reporters for Python, node, Ruby and PHP are loaded, and becomes the program itself.
# Maven and dotnet are its children, whose test reports are sent when they have ended.
name=${0##*/}
own=${0%/*}
reporters=${own%/*}

# Says that a runner starts: its name, then its words.
start() {
    record=$(printf 'start\037%s\037%s\037%s' "$1" "$$" "$PWD" && shift && { [ $# -eq 0 ] || printf '\037%s' "$@"; })
    printf '%s\n' "$(printf %s "$record" | tr '\n' ' ')" >"$PROVOST_REPORT"
}

# Maven or Gradle, which its wrapper script starts by java: its words come after its class.
start_of_java() {
    runner=$1
    while [ $# -gt 1 ]; do
        shift
        case $1 in
        org.gradle.* | org.apache.maven.* | org.codehaus.* | *gradle-wrapper.jar) break ;;
        esac
    done
    shift
    start "$runner" "$@"
}

# The folder that a check names for the logs of dotnet.
folder_of_logs() {
    logs=
    while [ $# -gt 0 ]; do
        case $1 in
        --results-directory | -r) logs=$2 ;;
        --results-directory[=:]*) logs=${1#*[=:]} ;;
        esac
        shift
    done
}

# Sends a file that a runner wrote, line by line. Of a log of dotnet the parts that say nothing about results are
# left out.
send_report() {
    PROVOST_MARK=$(printf 'xml\037%s\037%s\037%s\037' "$name" "$$" "$1") awk '
        /^ *<(TestEntry|Execution) / { next }
        /^ *<(UnitTestResult|UnitTest|TestMethod) / {
            gsub(/ (executionId|parentExecutionId|computerName|startTime|endTime|duration|testType)="[^"]*"/, "")
            gsub(/ (testListId|relativeResultsDirectory|storage|codeBase|adapterTypeName)="[^"]*"/, "")
        }
        { print ENVIRON["PROVOST_MARK"] $0 }' "$1"
}

# The reports that were written in this run.
reports() {
    case $name in
    dotnet) find "$logs" -type f -newer "$reads" -name '*.trx' ;;
    *)
        find "$PWD" \( -name .git -o -name node_modules \) -prune -o -type f -newer "$reads" \
            \( -path '*/surefire-reports/TEST-*.xml' -o -path '*/failsafe-reports/TEST-*.xml' \) -print
        ;;
    esac
}

case $name in
python* | py* | coverage | tox | nox | uv | poetry | pipenv | pdm | hatch)
    case ":$PYTHONPATH:" in
    *":$reporters/python:"*) ;;
    *) export PYTHONPATH="$reporters/python${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
    ;;
node*)
    case " $NODE_OPTIONS " in
    *" --require=$reporters/reporter.cjs "*) ;;
    *) export NODE_OPTIONS="--require=$reporters/reporter.cjs${NODE_OPTIONS:+ $NODE_OPTIONS}" ;;
    esac
    case " $* " in *" --test "*) adds=node ;; esac
    ;;
ruby*)
    case " $RUBYOPT " in
    *" -r$reporters/rspec.rb "*) ;;
    *) export RUBYOPT="-r$reporters/rspec.rb${RUBYOPT:+ $RUBYOPT}" ;;
    esac
    ;;
php* | composer)
    export PROVOST_PHP="$reporters/phpunit.php"
    case ":$PHP_INI_SCAN_DIR:" in
    *":$reporters/php:"*) ;;
    *) export PHP_INI_SCAN_DIR="$PHP_INI_SCAN_DIR:$reporters/php" ;;
    esac
    ;;
java | mvn | gradle)
    if [ -z "$PROVOST_INSIDE$PROVOST_JVM" ] && [ -p "$PROVOST_REPORT" ]; then
        case "$name $* " in
        java*" org.gradle.wrapper.GradleWrapperMain "* | java*"gradle-wrapper.jar "* | java*" org.gradle.launcher.GradleMain "*)
            adds=gradle
            ;;
        java*" org.apache.maven.wrapper.MavenWrapperMain "* | java*" org.codehaus.plexus.classworlds.launcher.Launcher "*)
            adds=mvn
            ;;
        java*) ;;
        *) adds=$name && start "$name" "$@" ;;
        esac
        [ "$name" != java ] || [ -z "$adds" ] || start_of_java "$adds" "$@"
        [ -z "$adds" ] || export PROVOST_JVM="$adds"
    fi
    ;;
*)
    if [ -z "$PROVOST_INSIDE" ] && [ -p "$PROVOST_REPORT" ]; then
        start "$name" "$@"
        adds=$name
    fi
    ;;
esac

# Each test reports its own result, and every test runs where the check says something about single tests.
[ "$PROVOST_SHIM" != "$$ $name" ] || adds=
case ${adds-} in
cargo)
    case " $* " in
    *" nextest "* | *" --no-fail-fast "* | *" --doc "*) ;;
    *" test "*) [ "$PROVOST_TESTS" = all ] && left=$# ;;
    esac
    added=
    while [ "${left:-0}" -gt 0 ]; do
        word=$1
        shift
        set -- "$@" "$word"
        [ "$word" = test ] && [ -z "$added" ] && set -- "$@" --no-fail-fast && added=1
        left=$((left - 1))
    done
    ;;
mvn)
    reads=$(mktemp)
    if [ "$PROVOST_TESTS" = all ]; then
        set -- "$@" --fail-at-end -Dsurefire.skipAfterFailureCount=0 -Dfailsafe.skipAfterFailureCount=0
        # A project's own number cannot be overruled: then some tests do not run.
        ! grep -rqs --include=pom.xml skipAfterFailureCount . || reads=
    fi
    ;;
dotnet)
    # Words on the command line count more than what a project and its settings say. A project that runs its
    # tests by Microsoft.Testing.Platform knows none of these words.
    if [ "$1" = test ] && ! grep -qs Microsoft.Testing.Platform global.json ../global.json ../../global.json; then
        reads=$(mktemp)
        folder_of_logs "$@"
        case " $* " in
        *" --list-tests "* | *" -t "* | *" --help "* | *" -h "*) rm -f "$reads" && reads= ;;
        *trx*) logs=${logs:-$PWD} ;;
        *)
            shift
            [ -n "$logs" ] || { logs=$(mktemp -d) && own_logs=1 && set -- --results-directory "$logs" "$@"; }
            set -- test --logger trx "$@"
            ;;
        esac
        # What it prints has to be understood.
        export DOTNET_CLI_UI_LANGUAGE="${DOTNET_CLI_UI_LANGUAGE:-en}"
    fi
    ;;
gradle)
    set -- "$@" -I "$reporters/init.gradle" -Dorg.gradle.configuration-cache=false \
        -Dorg.gradle.unsafe.configuration-cache=false
    [ "$PROVOST_TESTS" != all ] || set -- "$@" --continue
    ;;
go)
    # Only if the harness itself reads what it prints. In a sandbox no process can look at another one's files.
    { stdout=$(readlink /proc/self/fd/3); } 3>&1
    if [ "$1" = test ] && [ "$stdout" = "pipe:[$PROVOST_STDOUT]" ]; then
        verbose=0
        case " $* " in *" -v "* | *" -v=true "* | *" -test.v "*) verbose=1 ;; esac
        case " $* " in
        *" -json "* | *" -json=true "* | *" -list "* | *" -c "* | *" -bench "*) ;;
        *)
            printf 'json\037go\037%s\037%s\n' "$$" "$verbose" >"$PROVOST_REPORT"
            shift
            set -- test -json "$@"
            ;;
        esac
    fi
    ;;
node)
    # Node 20 and later load a reporter by its path.
    version=$(PROVOST_INSIDE=1 PROVOST_REPORT= NODE_OPTIONS= "$name" --version 2>/dev/null)
    version=${version#v}
    if [ "${version%%.*}" -ge 20 ] 2>/dev/null; then
        case "|$NODE_OPTIONS|$*" in
        *"--test-reporter-destination"* | "|"*"--test-reporter"*"|"*) ;;
        *"--test-reporter"*)
            export PROVOST_NODE_SILENT=1
            set -- --test-reporter="$reporters/node_test.mjs" --test-reporter-destination=/dev/null \
                --test-reporter-destination=stdout "$@"
            ;;
        *) set -- --test-reporter="$reporters/node_test.mjs" "$@" ;;
        esac
    fi
    ;;
esac

# A version manager's own shim may come back here: then this folder is not looked at again.
deeper=$((${PROVOST_SHIM_DEPTH:-0} + 1))
if [ "$PROVOST_SHIM" = "$$ $name" ] || [ "$deeper" -gt 30 ]; then
    rest=:$PATH:
    while :; do
        case $rest in
        *":$own:"*) rest="${rest%%":$own:"*}:${rest#*":$own:"}" ;;
        *) break ;;
        esac
    done
    rest=${rest#:}
    export PATH="${rest%:}"
    deeper=0
fi
export PROVOST_SHIM="$$ $name" PROVOST_SHIM_DEPTH="$deeper"

rest=$PATH:
while [ -n "$rest" ]; do
    folder=${rest%%:*}
    rest=${rest#*:}
    if [ "$folder" != "$own" ] && [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then
        [ -n "${reads-}" ] || exec "$folder/$name" "$@"
        "$folder/$name" "$@"
        code=$?
        reports | while IFS= read -r file; do send_report "$file"; done >"$PROVOST_REPORT"
        rm -f "$reads"
        [ -z "${own_logs-}" ] || rm -rf "$logs"
        exit "$code"
    fi
done
echo "$name: command not found" >&2
exit 127
