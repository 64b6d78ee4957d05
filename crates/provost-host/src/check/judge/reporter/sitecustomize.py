"""Reports the test sessions of a check to the harness, and changes their tests where it is told to.

Python loads this file in every process of a check, because its folder is on PYTHONPATH. It adds nothing
until pytest or unittest is imported. PROVOST_REPORT names the pipe that reports go to; PROVOST_CONTROL is
`fail` or `pass` in a control run, in which every test does just that. PROVOST_TESTS is `all` if every test has to
be run, also after a failed one.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_REPORT = os.environ.get("PROVOST_REPORT")
_CONTROL = os.environ.get("PROVOST_CONTROL", "")
_ALL = os.environ.get("PROVOST_TESTS") == "all" or bool(_CONTROL)
# A test may run a runner of its own: only the outermost session is the contract's.
_INSIDE = "PROVOST_INSIDE"
_NAMES = 5
_NOT_RUN = "(its tests could not be run)"


def _line(fields):
    line = "\x1f".join(str(field).replace("\n", " ").replace("\x1f", " ") for field in fields)
    return line.encode("utf-8", "replace")[:4000] + b"\n"


def _send(*fields):
    _write([_line(fields)])


def _write(lines):
    try:
        pipe = os.open(_REPORT, os.O_WRONLY | os.O_NONBLOCK)
        try:
            # There is a reader; a full pipe is waited for.
            os.set_blocking(pipe, True)
            # A write of at most 4096 bytes is not mixed with those of others.
            chunk, length = [], 0
            for line in lines:
                length += len(line)
                if length > 4096:
                    os.write(pipe, b"".join(chunk))
                    chunk, length = [], len(line)
                chunk.append(line)
            os.write(pipe, b"".join(chunk))
        finally:
            os.close(pipe)
    except OSError:
        pass


def _pieces(text, count):
    """A text of so many plain lines, in pieces that are written at once; None if a line is not plain."""
    if not text.isascii() or text.count("\x1f") != 4 * count or text.count("\n") != count:
        return None
    text, pieces, at = text.encode(), [], 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + 4096) + 1
        if end == 0:
            return None
        pieces.append(text[at:end])
        at = end
    return pieces


class _Session:
    """Counts the tests of one session."""

    def __init__(self, runner):
        self.runner = runner
        self.number = os.urandom(6).hex()
        self.passed = self.failed = self.changed = 0
        self.unmoved = []
        # Suites are long, and most of their tests pass: their names are kept as they are.
        self.passes = []
        self.tests = []
        self.is_open = False

    def test(self, result, name):
        self.tests.append((result, name))

    def lines(self):
        """One line for each test, and the end of the list."""

        def line(result, name):
            return _line(("test", self.runner, self.number, result, name))

        lines = []
        if self.passes:
            begin = "\x1f".join(("test", self.runner, self.number, "passed", ""))
            text = begin + ("\n" + begin).join(self.passes) + "\n"
            lines = _pieces(text, len(self.passes)) or [line("passed", name) for name in self.passes]
        lines += [line(result, name) for result, name in self.tests]
        return lines + [_line(("list", self.runner, self.number, len(self.passes) + len(self.tests)))]

    def start(self):
        self.is_open = True
        os.environ[_INSIDE] = self.number
        _send("start", self.runner, self.number, os.getcwd(), *sys.argv[1:])

    def end(self):
        if not self.is_open:
            return
        self.is_open = False
        if os.environ.get(_INSIDE) == self.number:
            del os.environ[_INSIDE]
        _write(self.lines())
        _send("end", self.runner, self.number, self.passed, self.failed, self.changed)
        for name in self.unmoved[:_NAMES]:
            _send("unmoved", self.runner, self.number, name[:300])


def _planted(*_args, **_more):
    if _CONTROL == "fail":
        raise AssertionError("planted: the harness made this test fail")


def _watch_pytest(config_module):
    hookimpl = config_module.hookimpl
    manager = config_module.PytestPluginManager
    consider_env = manager.consider_env

    class Reporter:
        """A plugin of pytest."""

        def __init__(self):
            self.session = _Session("pytest")
            self.results = {}

        @hookimpl(tryfirst=True)
        def pytest_configure(self, config):
            option = config.option
            if _ALL and hasattr(option, "maxfail"):
                option.maxfail = 0
            if any(getattr(option, name, False) for name in ("collectonly", "setuponly", "setupplan", "showfixtures")):
                self.session.is_open = False

        if _CONTROL:

            @hookimpl(hookwrapper=True, tryfirst=True)
            def pytest_runtest_call(self, item):
                self.session.changed += 1
                if hasattr(item, "obj"):
                    item.obj = _planted
                else:
                    item.runtest = _planted
                yield

        def _end_of_test(self, report):
            """A test failed if any of its parts did."""
            known = self.results.get(report.nodeid, "skipped")
            if report.failed:
                known = "failed"
            elif known != "failed" and report.when == "call" and (report.passed or hasattr(report, "wasxfail")):
                known = "passed"
            self.results[report.nodeid] = known
            if report.when == "teardown":
                self.session.test(self.results.pop(report.nodeid), report.nodeid)

        def _is_plain_pass(self, report):
            """Takes the usual way of a test through its three reports: the set-up, the test and its end passed."""
            if report.outcome != "passed" or _CONTROL or hasattr(report, "wasxfail"):
                return False
            name, when = report.nodeid, report.when
            if when == "setup":
                return name not in self.results
            if when == "call":
                if name in self.results:
                    return False
                self.results[name] = "passed"
                self.session.passed += 1
                return True
            if self.results.get(name) != "passed":
                return False
            del self.results[name]
            self.session.passes.append(name)
            return True

        @hookimpl(trylast=True)
        def pytest_collectreport(self, report):
            if report.failed:
                self.session.test("failed", report.nodeid + "::" + _NOT_RUN)

        @hookimpl(trylast=True)
        def pytest_runtest_logreport(self, report):
            if self._is_plain_pass(report) or report.outcome == "rerun":
                return
            self._end_of_test(report)
            if report.when != "call":
                # Its set-up failed: it was run, and it has no other report.
                self.session.failed += report.failed and report.when == "setup"
                return
            if report.passed:
                self.session.passed += 1
                if _CONTROL == "fail":
                    self.session.unmoved.append(report.nodeid)
            elif report.failed or hasattr(report, "wasxfail"):
                self.session.failed += report.failed
                self.session.passed += not report.failed

        @hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_sessionfinish(self, session):
            yield
            self.session.end()

    def watched(self):
        consider_env(self)
        # A worker of xdist takes part in the session of the process that started it.
        is_worker = os.environ.get("PYTEST_XDIST_WORKER")
        if is_worker or _INSIDE not in os.environ:
            reporter = Reporter()
            self.register(reporter, "provost-reporter")
            if not is_worker and not _only_asks(sys.argv[1:]):
                reporter.session.start()

    manager.consider_env = watched


def _only_asks(words):
    asks = ("-h", "--help", "-V", "--version", "--co", "--collect-only", "--fixtures", "--markers", "--setup-plan")
    return any(word in asks for word in words)


def _watch_unittest(runner_module):
    runner = runner_module.TextTestRunner
    run = runner.run

    def tests_of(suite):
        try:
            inner = list(suite)
        except TypeError:
            return [suite]
        return [test for each in inner for test in tests_of(each)]

    def recorded(result, passes, results):
        """The result object, which also keeps the names of tests that passed, and the results of the others."""

        def note(test, outcome):
            name = test.id()
            if outcome == "passed":
                passes.append(name)
            elif results.get(name) != "failed":
                results[name] = outcome

        def watch(method, outcome_of):
            inner = getattr(result, method, None)
            if inner is None:
                return

            def noted(test, *rest):
                outcome = outcome_of(rest)
                if outcome:
                    note(test, outcome)
                return inner(test, *rest)

            setattr(result, method, noted)

        passed, classes = result.addSuccess, {}
        usual_id = sys.modules["unittest.case"].TestCase.id

        def noted_pass(test):
            # Suites are long: the first part of a name is made once for each class.
            kind = test.__class__
            known = classes.get(kind)
            if known is None:
                known = classes[kind] = test.id()[: -len(test._testMethodName)] if kind.id is usual_id else ""
            passes.append(known + test._testMethodName if known else test.id())
            return passed(test)

        result.addSuccess = noted_pass
        watch("addExpectedFailure", lambda _: "passed")
        watch("addSkip", lambda _: "skipped")
        for method in ("addFailure", "addError", "addUnexpectedSuccess"):
            watch(method, lambda _: "failed")
        watch("addSubTest", lambda rest: "failed" if rest[1] is not None else None)
        return result

    def watched(self, test):
        if _INSIDE in os.environ:
            return run(self, test)
        session = _Session("unittest")
        session.start()
        tests = tests_of(test) if _CONTROL else []
        passes, results = [], {}
        make_result = self._makeResult
        self._makeResult = lambda: recorded(make_result(), passes, results)
        if _ALL:
            self.failfast = False
        if _CONTROL:
            for each in tests:
                name = getattr(each, "_testMethodName", None)
                if name and type(each).__name__ != "_FailedTest":
                    setattr(each, name, _planted)
                    session.changed += 1
        result = run(self, test)
        failed = {str(each) for each, _ in list(result.failures) + list(result.errors)}
        left_out = len(result.skipped)
        # A test with several failed sub-tests is one test.
        session.failed = sum(found == "failed" for found in results.values())
        session.passed = max(0, result.testsRun - session.failed - left_out)
        if _CONTROL == "fail" and session.passed:
            aside = failed | {str(each) for each, _ in list(result.skipped) + list(result.expectedFailures)}
            changed = [each for each in tests if hasattr(each, "_testMethodName")]
            session.unmoved = [str(each) for each in changed if str(each) not in aside]
        # Of several results of one name the worst counts; a test with a skipped part can pass.
        session.passes = [name for name in dict.fromkeys(passes) if results.get(name) != "failed"]
        for name in session.passes if results else ():
            results.pop(name, None)
        session.tests = [(found, name) for name, found in results.items() if found != "failed"]
        for name in [name for name, found in results.items() if found == "failed"]:
            # A module that could not be imported is no test.
            if name.startswith("unittest.loader._FailedTest."):
                name = name[len("unittest.loader._FailedTest.") :] + " " + _NOT_RUN
            session.test("failed", name)
        session.end()
        return result

    runner.run = watched


class _Watcher:
    """Calls a function once a module was imported."""

    def __init__(self, watched):
        self.watched = watched

    def find_spec(self, name, path=None, target=None):
        then = self.watched.get(name)
        if then is None:
            return None
        del self.watched[name]
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            try:
                then(module)
            except Exception:
                pass

        spec.loader.exec_module = exec_module
        return spec


def _go_on():
    """What Python would have found without this file: its folder goes, the next sitecustomize is run."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if _REPORT:
    sys.meta_path.insert(0, _Watcher({"_pytest.config": _watch_pytest, "unittest.runner": _watch_unittest}))
_go_on()
