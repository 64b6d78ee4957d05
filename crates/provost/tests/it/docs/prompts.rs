//! Writes `docs/prompts.md`, which shows every prompt an agent can get, from the texts beside the code.

use std::collections::BTreeSet;

use super::{page, root};

/// Folders and files with texts for agents.
const SOURCES: [&str; 8] = [
    "crates/provost-core/src/text/prompt",
    "crates/provost-core/src/text/planner",
    "crates/provost-core/src/text/judgement",
    "crates/provost-agent/src/prompt",
    "crates/provost-server/src/mcp/prompts",
    "crates/provost-server/src/mcp/instructions.md",
    "crates/provost-server/src/mcp/item.md",
    "crates/provost/src/clients/agents.md",
];

/// Sections of the page: each text with the moment at which an agent gets it.
const SECTIONS: [(&str, &[(&str, &str)]); 5] = [
    (
        "An attempt at a step",
        &[
            ("text/prompt/step.md", "The prompt of an attempt that begins a conversation."),
            ("text/prompt/context.md", "In it as `{context}`, if the step has `subscriptions`."),
            ("text/prompt/publish.md", "In it as `{publish}`, if the step has `publishes`."),
            (
                "text/prompt/check.md",
                "In it as `{check}`, unless the contract is hidden. `{how}` is the command with what it expects, \
                 the rubric of a model that judges, or that a person decides.",
            ),
            (
                "text/prompt/instructions.md",
                "In it as `{instructions}`, if the project has AGENTS.md, CLAUDE.md or GEMINI.md and the agent \
                 does not read that file by itself.",
            ),
            (
                "text/prompt/retry.md",
                "In it as `{retry}`, if an earlier attempt did not hold. Of a hidden contract it says only how \
                 the check ended.",
            ),
            (
                "text/prompt/limits.md",
                "In it as `{limits}`, if a budget limits tokens or money: what is left for the step.",
            ),
            ("text/prompt/time.md", "After that, if a budget limits the time."),
            ("text/prompt/touches.md", "In it as `{touches}`, if the step or the plan declares `touches`."),
            (
                "text/prompt/resume.md",
                "Instead of all this, if the attempt goes on in the conversation of the one before.",
            ),
            (
                "text/prompt/allowed.md",
                "Instead of all this, if a person allowed what the agent asked for over ACP.",
            ),
            (
                "mcp/item.md",
                "Beside the prompt, if the role has `tools = true`: about the tools of the step.",
            ),
        ],
    ),
    (
        "A session in its own client",
        &[
            ("mcp/instructions.md", "When a client connects to `provost mcp`."),
            (
                "clients/agents.md",
                "`provost init` writes it into AGENTS.md or the file that the client reads.",
            ),
            (
                "text/prompt/open_plan.md",
                "When a session begins in a folder with an open plan that it has not taken.",
            ),
            ("text/prompt/unfinished.md", "When a session wants to stop and its plan is not done."),
            ("mcp/prompts/plan.md", "When a person picks the MCP prompt `make_plan`."),
            ("mcp/prompts/finish.md", "When a person picks the MCP prompt `finish`."),
            ("mcp/prompts/open.md", "When a person picks the MCP prompt `what_is_open`."),
        ],
    ),
    (
        "The planner",
        &[
            ("text/planner/ask.md", "`provost new` asks for a draft of a plan."),
            ("text/planner/format.md", "In it as `{format}`: how a plan is written."),
            ("text/planner/again.md", "If the draft has errors."),
            ("text/planner/test.md", "`provost suggest-checks` asks for a failing test."),
        ],
    ),
    (
        "The judge",
        &[("text/judgement/ask.md", "A contract has a rubric, and a model of another role judges.")],
    ),
    (
        "The built-in loop",
        &[
            ("prompt/system.md", "The system prompt of an attempt."),
            ("prompt/chat.md", "The system prompt of `provost chat`, before the project's instructions."),
            ("prompt/no_plan.md", "The model answers without a plan, where a plan is required."),
            ("prompt/unfinished.md", "The model says that it is done, and its own plan is not complete."),
            ("prompt/empty.md", "The model answers with nothing."),
            ("prompt/cut.md", "The answer was cut off, because it was too long."),
            (
                "prompt/form.md",
                "The answer of a judge, or of `provost chat --answer-schema`, is not JSON in the form that was asked for.",
            ),
            (
                "prompt/map.md",
                "After the first prompt, if the repository has three source files or more and `map_tokens` is not 0.",
            ),
            ("prompt/text_tools.md", "After the system prompt, if the role has `tool_calls = \"text\"`."),
            ("prompt/summary.md", "The context is full, and the role has `compaction = \"summary\"`."),
            ("prompt/no_images.md", "Instead of an image, if the model's API refused it."),
            ("prompt/left_out.md", "Older turns were left out to make room: it follows the task."),
        ],
    ),
];

/// Returns the paths of all texts for agents.
fn sources() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in SOURCES {
        let path = root().join(source);
        if path.is_file() {
            found.insert(source.to_owned());
            continue;
        }
        let names =
            std::fs::read_dir(path).unwrap().flatten().filter_map(|it| it.file_name().into_string().ok());
        found.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{source}/{name}")));
    }
    found
}

/// Returns the text in a fence that it does not contain.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_matches('\n'))
}

#[test]
fn the_page_shows_every_prompt_as_it_is() {
    let name = "docs/prompts.md";
    let mut left = sources();
    let old = page(name).text;
    // The opening is written by hand.
    let mut text = old.split("\n## ").next().unwrap_or_default().trim_end().to_owned() + "\n";
    for (title, prompts) in SECTIONS {
        text.push_str(&format!("\n## {title}\n"));
        for (end, when) in prompts {
            let is_it = |path: &&String| path.ends_with(&format!("/{end}"));
            // `prompt/unfinished.md` also ends the path of another text.
            let path = left.iter().filter(is_it).min_by_key(|path| path.len()).cloned();
            let path = path.unwrap_or_else(|| panic!("there is no text {end}"));
            left.remove(&path);
            text.push_str(&format!("\n{when}\n\n{}", fenced(&page(&path).text)));
        }
    }
    assert!(left.is_empty(), "say in SECTIONS when an agent gets these: {left:?}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(root().join(name), text).unwrap();
    } else {
        assert!(old == text, "{name} is not what the sources say: run this test with UPDATE_EXPECT=1");
    }
}
