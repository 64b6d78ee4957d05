//! Writes a notification as a message for Slack, Microsoft Teams or Discord.
//!
//! The texts contain words of agents. In each format they are plain text: no mention, no link and no markup
//! in them works. Only the link to the decision is a link.
//!
//! **Invariant:** only the program's own words and the link to the decision are markup.

use serde_json::{Value, json};

use super::{DecisionText, Notification};
use crate::config::MessageFormat;

/// Most characters of a title. Slack allows 150, Discord 256.
const TITLE_CHARS: usize = 140;

const OPEN: &str = "Open the decision";

/// Returns the body of the request. The channels of a team get the texts for people, a program the whole item.
pub(super) fn body(format: MessageFormat, message: &Notification) -> String {
    let (title, decision) = (bounded(&message.title, TITLE_CHARS), &message.decision);
    match format {
        MessageFormat::Provost => message.body.clone(),
        MessageFormat::Slack => slack(&title, decision).to_string(),
        MessageFormat::Teams => teams(&title, decision).to_string(),
        MessageFormat::Discord => discord(&title, decision).to_string(),
    }
}

/// Cuts a text after this number of characters.
fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Lists the choices, one line each.
pub(super) fn choices(decision: &DecisionText) -> String {
    let lines: Vec<String> =
        decision.choices.iter().map(|(choice, does)| format!("• {choice}: {does}")).collect();
    lines.join("\n")
}

fn command(decision: &DecisionText) -> String {
    format!("Decide with: {}", decision.command)
}

/// Block Kit. `plain_text` has no markup and no mentions.
fn slack(title: &str, decision: &DecisionText) -> Value {
    let plain = |text: &str| json!({ "type": "section", "text": { "type": "plain_text", "text": for_slack(text), "emoji": false } });
    let mut blocks = vec![
        json!({ "type": "header", "text": { "type": "plain_text", "text": for_slack(title), "emoji": false } }),
        plain(&decision.sentence),
    ];
    if !decision.choices.is_empty() {
        blocks.push(plain(&choices(decision)));
    }
    blocks.push(match &decision.link {
        Some(link) => {
            let link = link.replace('|', "%7C").replace('>', "%3E").replace('<', "%3C").replace('&', "&amp;");
            json!({ "type": "section", "text": { "type": "mrkdwn", "text": format!("<{link}|{OPEN}>") } })
        }
        None => plain(&command(decision)),
    });
    json!({
        // For the notification of the client; the message itself shows the blocks.
        "text": for_slack(&format!("{title}: {}", decision.sentence)),
        "mrkdwn": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "blocks": blocks,
    })
}

/// Escapes the three characters that have a meaning in every text of Slack.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An adaptive card, as a webhook of Workflows takes it. A `TextRun` has no markup, unlike a `TextBlock`.
fn teams(title: &str, decision: &DecisionText) -> Value {
    let run = |text: &str| json!({ "type": "TextRun", "text": text });
    let block = |inline: Value| json!({ "type": "RichTextBlock", "inlines": [inline] });
    let mut heading = run(title);
    heading["weight"] = json!("Bolder");
    heading["size"] = json!("Medium");
    let mut body = vec![block(heading), block(run(&decision.sentence))];
    body.extend(decision.choices.iter().map(|(choice, does)| block(run(&format!("• {choice}: {does}")))));
    let actions = match &decision.link {
        Some(link) => vec![json!({ "type": "Action.OpenUrl", "title": OPEN, "url": link })],
        None => {
            body.push(block(run(&command(decision))));
            Vec::new()
        }
    };
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions,
    });
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": null,
        "content": card,
    });
    json!({ "type": "message", "attachments": [attachment] })
}

/// An embed. Nobody is mentioned, whatever the texts say.
fn discord(title: &str, decision: &DecisionText) -> Value {
    let mut text = vec![for_discord(&decision.sentence)];
    if !decision.choices.is_empty() {
        text.push(choices(decision));
    }
    let mut embed = json!({ "title": for_discord(title) });
    match &decision.link {
        Some(link) => {
            embed["url"] = json!(link);
            // An address in angle brackets is a link without a preview.
            text.push(format!("[{OPEN}](<{}>)", link.replace(['>', '<', ')', '('], "")));
        }
        None => text.push(for_discord(&command(decision))),
    }
    embed["description"] = json!(text.join("\n\n"));
    json!({ "allowed_mentions": { "parse": [] }, "embeds": [embed] })
}

/// Escapes every character that can begin markup, a mention or an address.
fn for_discord(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_punctuation() && !matches!(letter, ',' | '.' | ';' | '\'' | '"' | '?' | '%') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{DecisionText, MessageFormat, Notification, body};

    const EVIL: &str =
        "<!channel> @everyone <@U123> [here](https://evil.example) *b* `c` <https://e.example|x>";

    fn said(format: MessageFormat, link: Option<&str>) -> Value {
        let decision = DecisionText {
            sentence: EVIL.to_owned(),
            choices: vec![("retry", "try again"), ("abort", "end the plan")],
            link: link.map(str::to_owned),
            command: "provost inbox a:e2".to_owned(),
        };
        let (id, line) = ("a:e2".to_owned(), String::new());
        let message = Notification {
            id,
            title: format!("{EVIL}{}", "x".repeat(500)),
            line,
            body: String::new(),
            decision,
        };
        serde_json::from_str(&body(format, &message)).expect("JSON")
    }

    #[test]
    fn words_of_an_agent_are_plain_text_in_every_format() {
        let link = "https://plans.example/inbox/a:e2";
        let slack = said(MessageFormat::Slack, Some(link));
        let texts: Vec<(&str, &str)> = slack["blocks"]
            .as_array()
            .expect("blocks")
            .iter()
            .map(|block| (&block["text"]["type"], &block["text"]["text"]))
            .map(|(kind, text)| (kind.as_str().expect("a type"), text.as_str().expect("a text")))
            .collect();
        assert_eq!(texts.iter().filter(|(kind, _)| *kind == "mrkdwn").count(), 1);
        assert_eq!(texts.last(), Some(&("mrkdwn", &*format!("<{link}|Open the decision>"))));
        assert!(texts[..texts.len() - 1].iter().all(|(_, text)| !text.contains(['<', '>'])), "{texts:?}");
        assert!(!slack["text"].as_str().expect("a text").contains(['<', '>']), "{}", slack["text"]);
        assert!(texts[0].1.replace("&lt;", "<").replace("&gt;", ">").chars().count() <= 150);

        let teams = said(MessageFormat::Teams, Some(link)).to_string();
        assert!(!teams.contains("\"TextBlock\"") && teams.contains("TextRun"), "{teams}");
        assert_eq!(teams.matches("Action.OpenUrl").count(), 1);

        let discord = said(MessageFormat::Discord, Some(link));
        assert_eq!(discord["allowed_mentions"]["parse"], serde_json::json!([]));
        let text = discord["embeds"][0]["description"].as_str().expect("a text");
        for active in ["](https:", "<@", "<!", "@everyone ", " *b*", "`c`", "https://e."] {
            let bare = text.match_indices(active).filter(|(at, _)| !text[..*at].ends_with('\\')).count();
            assert_eq!(bare, 0, "{active}: {text}");
        }
        assert!(text.ends_with(&format!("[Open the decision](<{link}>)")), "{text}");
    }

    #[test]
    fn without_a_server_the_command_is_named() {
        for format in [MessageFormat::Slack, MessageFormat::Teams, MessageFormat::Discord] {
            let text = said(format, None).to_string().replace("\\\\", "");
            assert!(text.contains("Decide with: provost inbox a:e2"), "{text}");
            assert!(!text.contains("Open the decision"), "{text}");
        }
    }
}
