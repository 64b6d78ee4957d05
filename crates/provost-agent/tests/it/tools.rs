//! Tests the tools of the loop with a model behind every API.

use provost_agent::agent::{RunEnd, Settings};
use provost_agent::provider::api::Dialect;
use provost_agent::tool::after_edit::AfterEdit;
use provost_agent::tool::files::Workspace;
use provost_rehearsal::{Model, Turn};
use serde_json::json;

use crate::stage::{DIALECTS, Stage, api};

#[tokio::test]
async fn a_model_finds_edits_and_patches_files() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        stage.write("notes.md", "one\ntwo\nthree\n");
        let edits = json!([{ "old": "one", "new": "1" }, { "old": "two", "new": "2" }]);
        let patch = "*** Begin Patch\n*** Update File: notes.md\n@@\n 2\n-three\n+3\n*** Add File: new.md\n+4\n\
                     *** End Patch";
        let wrong = patch.replace(" 2\n", " 7\n");
        let model = Model::script([
            Turn::call("find", json!({ "pattern": "*.md" })),
            Turn::call("edit", json!({ "path": "notes.md", "edits": edits })).expecting("notes.md"),
            Turn::call("apply_patch", json!({ "patch": wrong })).expecting("replaced 2 in notes.md"),
            Turn::call("apply_patch", json!({ "patch": patch })).expecting("hunk 1 does not fit `notes.md`"),
            Turn::text("done").expecting("changed notes.md\nadded new.md"),
        ]);
        let model = model.serve().expect("a model");
        let run = stage.run(&api(dialect, &model), "renumber").await;
        model.expect_kept();
        assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "{dialect:?}");
        let text = |name: &str| std::fs::read_to_string(stage.path().join(name)).expect("a file");
        assert_eq!((text("notes.md"), text("new.md")), ("1\n2\n3\n".to_owned(), "4\n".to_owned()));
    }
}

#[tokio::test]
async fn a_command_after_edits_tells_the_model_what_it_broke() {
    let stage = Stage::new();
    let workspace = Workspace::new(stage.path()).expect("a workspace");
    let hook = AfterEdit::new("echo checked >> log; grep good f || { echo 'f is bad'; exit 1; }", &workspace);
    let stage = Stage { settings: Settings { after_edit: Some(hook), ..stage.settings.clone() }, ..stage };
    let write = |text: &str| json!({ "path": "f", "content": text });
    let edit = json!({ "path": "f", "old": "none", "new": "x" });
    let model = Model::script([
        Turn::call("list", json!({ "path": "." })),
        // Two edits in a turn are checked once, and one that failed is not.
        Turn::call("write_file", write("bad")).and_call("write_file", write("worse")),
        Turn::call("edit", edit).expecting("call:4 after your edits, `echo checked"),
        Turn::call("write_file", write("good")).expecting("`old` is not in f"),
        Turn::text("done").expecting("call:7 after your edits, `echo checked"),
    ]);
    let model = model.serve().expect("a model");
    let run = stage.run(&api(Dialect::Anthropic, &model), "write f").await;
    model.expect_kept();
    assert_eq!(run.outcome, RunEnd::Finished { answer: "done".to_owned() }, "it decides nothing");
    let newest: Vec<String> = model.requests().into_iter().map(|request| request.newest).collect();
    assert!(newest[2].contains("exit code 1\nf is bad"), "{}", newest[2]);
    assert!(newest[4].contains("was run\nexit code 0\ntoolu_"), "no output if all is well: {}", newest[4]);
    let log = std::fs::read_to_string(stage.path().join("log")).expect("a log");
    assert_eq!(log.lines().count(), 2);
}

/// The beginning of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[tokio::test]
async fn an_image_reaches_the_model_in_every_dialect() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        std::fs::write(stage.path().join("shot.png"), PNG).expect("a file");
        let model = Model::script([
            Turn::call("view_image", json!({ "path": "shot.png" })),
            Turn::text("a picture").expecting("the image follows: shot.png (image/png, 8 bytes)"),
        ]);
        let model = model.serve().expect("a model");
        let run = stage.run(&api(dialect, &model), "what is on it?").await;
        model.expect_kept();
        assert_eq!(run.outcome, RunEnd::Finished { answer: "a picture".to_owned() }, "{dialect:?}");
        let body = model.requests()[1].body.to_string();
        assert!(body.contains("iVBORw0KGgo=") && body.contains("image/png"), "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_see_is_told_so_and_goes_on() {
    let stage = Stage::new();
    std::fs::write(stage.path().join("shot.png"), PNG).expect("a file");
    let model = Model::script([
        Turn::call("view_image", json!({ "path": "shot.png" })),
        Turn::status(400).with_message("this model takes no images"),
        Turn::text("I cannot see it.").expecting("you cannot see images"),
    ]);
    let model = model.serve().expect("a model");
    let run = stage.run(&api(Dialect::Chat, &model), "what is on it?").await;
    model.expect_kept();
    assert_eq!(run.outcome, RunEnd::Finished { answer: "I cannot see it.".to_owned() });
    assert!(!model.requests()[2].body.to_string().contains("iVBORw0KGgo="));
}
