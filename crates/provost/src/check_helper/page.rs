//! `provost-check page`: a page of a service shows a text in a real browser, without errors in its console.
use std::path::Path;
use std::time::{Duration, Instant};

use super::browser::{self, Browser};
use super::ending::Ending;
use super::http::ServiceArgs;
use super::service::go_on;

/// Time between two looks at the page.
const PAUSE: Duration = Duration::from_millis(100);
/// Time in which a page that shows its text may still report an error.
const SETTLED: Duration = Duration::from_millis(500);
/// Most characters of a page that are shown.
const SHOWN: usize = 400;

/// Start a service, open a page in headless Chromium, and check what it shows
///
/// Scripts of the page run. The service gets its port as in `provost-check http`. It and the browser are
/// ended in any case. Chromium or Chrome must be on `PATH`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check page --text Welcome --no-console-errors -- python3 -m http.server {port}
  provost-check page --path /login --text 'Sign in' --wait 60s -- npm start")]
pub(super) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// A text that the page must show; may be repeated
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,
    /// The console must have no errors, and every file of the page must load
    #[arg(long)]
    no_console_errors: bool,
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    if args.text.is_empty() && !args.no_console_errors {
        return Err(Ending::Usage("nothing to check: use --text or --no-console-errors".to_owned()));
    }
    let program = browser::find()?;
    let (mut service, url) = args.service.start(Path::new("."))?;
    let mut browser = Browser::start(&program)?;
    let looked = look(&mut browser, &url, args);
    drop(browser);
    looked.map_err(|ending| service.with_output(ending))
}

/// Opens the page, and waits until it shows the texts.
fn look(browser: &mut Browser, url: &str, args: &Args) -> Result<String, Ending> {
    let until = Instant::now() + args.service.wait();
    browser.open(url, until)?;
    let expression = "document.readyState + '\\n' + (document.body ? document.body.innerText : '')";
    let (shown, missing) = loop {
        go_on()?;
        let found = browser.evaluate(expression, until)?;
        let found = found.as_str().unwrap_or_default().to_owned();
        let (state, shown) = found.split_once('\n').unwrap_or(("", ""));
        let missing = args.text.iter().filter(|text| !shown.contains(text.as_str()));
        let missing: Vec<String> = missing.map(|text| format!("the page does not show {text:?}")).collect();
        if missing.is_empty() && state == "complete" || Instant::now() >= until {
            break (shown.to_owned(), missing);
        }
        browser.listen(PAUSE);
    };
    browser.listen(SETTLED);
    let mut unmet = missing;
    if args.no_console_errors {
        unmet.extend(browser.errors.drain(..).map(|error| format!("an error in the console: {error}")));
    }
    match unmet.is_empty() {
        true => Ok(format!("{url} shows what it should")),
        false => {
            let shown: String = shown.chars().take(SHOWN).collect();
            Err(Ending::unmet_all(&unmet).noted(&format!("the page shows {shown:?}")))
        }
    }
}
