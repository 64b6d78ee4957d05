//! Takes the rubric of a judged contract apart: a shell block that has to hold, and words for the model.

/// The shell block of a rubric: it has to hold before a model is asked.
pub fn command(rubric: &str) -> Option<String> {
    let (_, after) = rubric.split_once("```shell\n")?;
    let (command, _) = after.split_once("\n```")?;
    Some(command.to_owned()).filter(|command| !command.trim().is_empty())
}

/// The rubric without its shell block.
pub fn words(rubric: &str) -> String {
    match rubric.split_once("```shell\n") {
        Some((before, after)) => {
            let after = after.split_once("\n```").map_or("", |(_, after)| after);
            format!("{}\n{}", before.trim_end(), after.trim_start())
        }
        None => rubric.to_owned(),
    }
}
