//! Tests a model without tool calls of its own, with every API.

use provost_agent::agent::RunEnd;
use provost_agent::provider::text_tools::TextTools;
use provost_rehearsal::{Model, Turn};

use crate::stage::{DIALECTS, Stage, api};

#[tokio::test]
async fn a_model_that_only_writes_text_uses_tools() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        let call = "I write it.\n```tool\n{\"tool\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"x\"}}\n```";
        let model = Model::script([
            Turn::text(call),
            Turn::text("<tool_call>{\"name\": \"lsit\"}</tool_call>")
                .expecting("write_file answered: call:1 ok"),
            Turn::text("Wrote a.").expecting("there is no tool `lsit`"),
        ]);
        let model = model.serve().expect("a model");
        let provider = TextTools { model: api(dialect, &model) };
        let run = stage.run(&provider, "write a").await;
        model.expect_kept();
        assert_eq!(run.outcome, RunEnd::Finished { answer: "Wrote a.".to_owned() }, "{dialect:?}");
        assert!(stage.path().join("a").exists());
        for request in model.requests() {
            assert!(request.tools.is_empty(), "{dialect:?}: {:?}", request.tools);
        }
        let first = model.requests()[0].all_text();
        assert!(first.contains("- write_file: Writes a whole file"), "{first}");
        let second = model.requests()[1].all_text();
        assert!(
            second.contains("I write it.") && second.contains("```tool"),
            "its own call is shown: {second}"
        );
    }
}
