//! Tests `[recipes]`.

use super::*;

#[test]
fn recipes_are_read_with_the_defaults_of_their_class() {
    let config = parsed(
        r#"
[recipes.licence]
class = "transient"
detect = { stderr = "licence server", exit_code = [3], http = [503], verdict = ["broke"] }
backoff = ["5s", "30s", "5m"]
then = "abort"
matches = ["the licence server is asleep"]
misses = ["a server without one"]
[recipes.patience]
class = "unknown"
max_attempts = 1
"#,
    );
    let seen = FailureOutput { stderr: "HTTP 503: licence server", stdout: "", exit_code: Some(3) };
    let found = config.recipes.recognise(seen, "broke").expect("recognised");
    let recipe = config.recipes.of(&found);
    assert_eq!((recipe.max_attempts, recipe.backoff.len(), recipe.then.word()), (Some(3), 3, "abort"));
    let unknown = provost_core::rules::recover::class::FailureMatch::unknown();
    let recipe = config.recipes.of(&unknown);
    assert_eq!((recipe.name.as_str(), recipe.max_attempts), ("patience", Some(1)));
}

#[test]
fn the_first_recipe_in_the_text_that_recognises_a_failure_decides() {
    let config = parsed(
        "[recipes.z]\nclass = \"logic\"\ndetect = { stderr = \"x\" }\n[recipes.a]\nclass = \"unknown\"\ndetect = { stderr = \"x\" }\n",
    );
    let found = config.recipes.recognise(FailureOutput { stderr: "x", ..FailureOutput::default() }, "broke");
    assert_eq!(found.expect("recognised").rule, "z");
}

#[test]
fn a_malformed_recipe_is_shown_where_it_is_wrong() {
    refused(
        "[recipes.a]\nclass = \"transent\"\n",
        expect![[r#"
        provost.toml:2:9: there is no class `transent`; did you mean `transient`?
          class = "transent"
                  ^^^^^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nthen = \"escalate\"\n",
        expect![[r#"
        provost.toml:1:1: [recipes.a] has no `class`
          [recipes.a]
          ^^^^^^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\nthen = \"skipp\"\n",
        expect![[r#"
        provost.toml:3:8: `then` cannot be `skipp`; did you mean `skip`?
          then = "skipp"
                 ^^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\nretries = 3\n",
        expect![[r#"
        provost.toml:3:1: unknown key `retries` in [recipes.a]; it is one of class, detect, backoff, max_attempts, then, matches, misses
          retries = 3
          ^^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\nbackoff = [\"5s\", \"soon\"]\n",
        expect![[r#"
        provost.toml:3:18: `backoff` must be a list of times such as ["5s", "30s"]: expected number at 0
          backoff = ["5s", "soon"]
                           ^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\nbackoff = [\"2days\"]\n",
        expect![[r#"
        provost.toml:3:12: the longest wait is 1day
          backoff = ["2days"]
                     ^^^^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { stderr = \"(\" }\n",
        expect![[r#"
        provost.toml:3:21: `stderr` is not a regular expression: error: unclosed group
          detect = { stderr = "(" }
                              ^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { stderr = \".*\" }\n",
        expect![[r#"
        provost.toml:3:21: `stderr` matches even an empty output
          detect = { stderr = ".*" }
                              ^^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { http = [200] }\n",
        expect![[r#"
        provost.toml:3:20: `http` must be a list of numbers between 400 and 599
          detect = { http = [200] }
                             ^^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { verdict = [\"held\"] }\n",
        expect![[r#"
            provost.toml:3:23: there is no verdict `held`; it is one of broke, timed_out, killed, not_run, not_started, agent
              detect = { verdict = ["held"] }
                                    ^^^^^^
        "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = {}\n",
        expect![[r#"
        provost.toml:3:10: `detect` is empty; it can have stderr, stdout, exit_code, http, verdict
          detect = {}
                   ^^
    "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { stderr = \"red\" }\nmatches = [\"blue\"]\n",
        expect![[r#"
            provost.toml:4:11: "blue" is not recognised by `detect`
              matches = ["blue"]
                        ^^^^^^^^
        "#]],
    );
    refused(
        "[recipes.a]\nclass = \"logic\"\ndetect = { stderr = \"red\" }\nmisses = [\"a red one\"]\n",
        expect![[r#"
            provost.toml:4:10: "a red one" is recognised by `detect`
              misses = ["a red one"]
                       ^^^^^^^^^^^^^
        "#]],
    );
}
