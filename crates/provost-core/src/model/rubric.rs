//! Splits the rubric of a judged contract into its shell block and the text for the model.

/// Returns the shell block of a rubric, which must hold before provost asks a model.
pub fn command(rubric: &str) -> Option<String> {
    let (_, after) = rubric.split_once("```shell\n")?;
    let (command, _) = after.split_once("\n```")?;
    Some(command.to_owned()).filter(|command| !command.trim().is_empty())
}

/// Returns the rubric without its shell block.
pub fn words(rubric: &str) -> String {
    match rubric.split_once("```shell\n") {
        Some((before, after)) => {
            let after = after.split_once("\n```").map_or("", |(_, after)| after);
            format!("{}\n{}", before.trim_end(), after.trim_start())
        }
        None => rubric.to_owned(),
    }
}
