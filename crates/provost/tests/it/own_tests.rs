//! Tests steps in which the agent writes the tests that decide about it: they are verified only if one of the new
//! tests notices when provost breaks the code.

use serde_json::Value;

use crate::env::Env;

const PLAN: &str = "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"test_more.py\"]\n---\n\n# A plan\n\n\
                    ## Steps\n\n### 1. Test it\n\n**target:** coder\n**writes:** tests\n\n**task:**\nTest sub.\n\n\
                    **contract:**\n```shell\nset -e\ntest -s test_more.py\npython3 -m unittest -q\n```\n\
                    exit_code == 0\n**on_fail:** escalate\n";
const CODE: &str = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n";
const OLD: &str = "import calc, unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        \
                   self.assertEqual(calc.add(2, 3), 5)\n";

/// Runs the step with an agent that writes this test, and returns its view.
fn with_test(body: &str) -> Option<Value> {
    let test =
        format!("import calc, unittest\n\n\nclass More(unittest.TestCase):\n    def test_sub(self):\n{body}");
    let env = Env::new(PLAN).agent(&format!("cat > test_more.py <<'PY'\n{test}PY\n"));
    if !env.has_fences() {
        return None;
    }
    env.write("calc.py", CODE);
    env.write("test_calc.py", OLD);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "one of two is tested"]);
    env.approve().provost(&["run"]).exits(0);
    let status = env.provost(&["status", "--json"]).exits(0).json();
    env.provost(&["audit"]).exits(0);
    Some(status["steps"][0].clone())
}

#[test]
fn a_new_test_that_notices_broken_code_makes_the_step_verified() {
    let Some(step) = with_test("        self.assertEqual(calc.sub(3, 2), 1)\n") else { return };
    assert_eq!(step["pass"], "verified", "{step}");
    assert_eq!(step["check_by"], "the agent");
}

#[test]
fn a_new_test_that_notices_nothing_makes_it_self_checked() {
    for body in [
        "        self.assertTrue(True)\n",
        "        self.assertTrue(calc.sub)\n",
        // It runs, but compares nothing.
        "        calc.sub(3, 2)\n",
        // It looks at the text of the code, so it notices every change and tests nothing.
        "        import hashlib\n        text = open('calc.py', 'rb').read()\n        \
         self.assertEqual(len(text), 66, hashlib.sha256(text).hexdigest())\n",
        "        self.assertIn('return a - b', open('calc.py').read())\n",
        "        import re\n        self.assertTrue(re.search(r'(?m)^    return a - b$', open('calc.py').read()))\n",
        "        import inspect\n        self.assertEqual(len(inspect.getsource(calc.sub)), 32)\n",
        // It takes the compiled function or the syntax tree apart.
        "        import dis\n        names = [each.opname for each in dis.get_instructions(calc.sub)]\n        \
         self.assertTrue(any('BINARY' in name for name in names))\n",
        "        self.assertNotIn(None, calc.sub.__code__.co_consts[1:])\n        \
         self.assertEqual(calc.sub.__code__.co_varnames, ('a', 'b'))\n        \
         self.assertEqual(len(calc.sub.__code__.co_code), len(calc.add.__code__.co_code))\n",
        "        import ast\n        tree = ast.parse(open('calc.py').read())\n        \
         sub = next(each for each in ast.walk(tree) if getattr(each, 'name', '') == 'sub')\n        \
         self.assertTrue(any(isinstance(each, ast.Sub) for each in ast.walk(sub)))\n",
        "        import ast\n        self.assertIn('Sub()', ast.dump(ast.parse(open('calc.py').read())))\n",
    ] {
        let Some(step) = with_test(body) else { return };
        assert_eq!((&step["pass"], &step["mark"]), (&"self_checked".into(), &"🟡".into()), "{body} {step}");
    }
}
