//! `provost-check screenshot`: a page looks as it did in the last commit, or as a picture.
//!
//! The browser compares the pictures itself, in a process that has nothing of the page.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::base_tree::BaseTree;
use super::browser::{self, Browser};
use super::ending::Ending;
use super::http::ServiceArgs;
use super::service::go_on;
use super::size::Percent;

/// Time between two looks at the page.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that a loaded page may still take to draw itself.
const SETTLED: Duration = Duration::from_millis(300);
/// Two pixels are equal if no colour differs by more than this, of 255.
const TOLERANCE: u8 = 8;
/// Returns the sizes of two pictures, the number of different pixels, and the box around them.
const COMPARE: &str = "(async (first, second, tolerance) => {
  const load = source => new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => failed(new Error('no picture'));
    image.src = 'data:image/png;base64,' + source;
  });
  const pixels = image => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    const area = canvas.getContext('2d');
    area.drawImage(image, 0, 0);
    return area.getImageData(0, 0, image.width, image.height).data;
  };
  const loaded = await Promise.all([load(first), load(second)].map(each => each.catch(() => null)));
  if (!loaded[0] || !loaded[1]) return { unread: loaded[0] ? 2 : 1 };
  const [one, two] = loaded;
  const sizes = [one, two].map(each => [each.width, each.height]);
  if (one.width !== two.width || one.height !== two.height) return { sizes };
  const [a, b] = [pixels(one), pixels(two)];
  let [different, left, top, right, bottom] = [0, one.width, one.height, 0, 0];
  for (let at = 0; at < a.length; at += 4) {
    let most = 0;
    for (let channel = 0; channel < 4; channel++) most = Math.max(most, Math.abs(a[at + channel] - b[at + channel]));
    if (most <= tolerance) continue;
    different += 1;
    const [x, y] = [at / 4 % one.width, Math.floor(at / 4 / one.width)];
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  }
  return { sizes, different, box: [left, top, right, bottom] };
})";

/// Start a service, open a page in headless Chromium, and compare how it looks
///
/// Without --expected, the service is started a second time with the files of the last commit, and both pages
/// are compared. Pages see that animations are not wanted (prefers-reduced-motion). A picture in the repository
/// depends on the fonts and the browser of the machine that made it; the last commit does not.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check screenshot -- python3 -m http.server {port}
  provost-check screenshot --path /login --size 390x844 --max-difference 0.5% -- npm start
  provost-check screenshot --expected design.png --save seen.png -- npm start")]
pub(super) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// A PNG file that the page must look like, instead of the page of the last commit
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// The share of pixels that may differ
    #[arg(long, default_value = "0", value_name = "PERCENT")]
    max_difference: Percent,
    /// Width and height of the window
    #[arg(long, default_value = "1280x800", value_name = "SIZE")]
    size: WindowSize,
    /// Write the picture to this file, whatever the result is
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WindowSize {
    width: u32,
    height: u32,
}

impl FromStr for WindowSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('x').and_then(|(width, height)| {
            Some(Self { width: width.parse().ok()?, height: height.parse().ok()? })
        });
        let fits = |size: &Self| (1..=8192).contains(&size.width) && (1..=8192).contains(&size.height);
        parsed
            .filter(fits)
            .ok_or_else(|| "write width and height such as 1280x800, at most 8192 each".to_owned())
    }
}

impl fmt::Display for WindowSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let expected = args.expected.as_deref().map(picture);
    let program = browser::find()?;
    let seen = shoot(&program, args, Path::new("."))?;
    if let Some(file) = &args.save {
        let bytes = STANDARD.decode(&seen).map_err(|error| Ending::not_run("read the picture", error))?;
        let name = file.display();
        std::fs::write(file, bytes).map_err(|error| Ending::not_run(&format!("write {name}"), error))?;
    }
    let (expected, name) = match (expected, &args.expected) {
        (Some(read), Some(file)) => (read?, file.display().to_string()),
        _ => {
            let base = BaseTree::check_out()?;
            let shot = shoot(&program, args, &base.here);
            let said = |why| Ending::NotRun(format!("the page of the last commit: {why}"));
            let shot = shot.map_err(|ending| match ending {
                Ending::Unmet(why) => said(why),
                other => other,
            });
            (shot?, "the page of the last commit".to_owned())
        }
    };
    let compared = compare(&program, &expected, &seen, args.service.wait())?;
    verdict(&compared, &name, args.max_difference)
}

/// Returns a picture of the repository, in base64.
fn picture(file: &Path) -> Result<String, Ending> {
    let read = std::fs::read(file).map(|bytes| STANDARD.encode(bytes));
    read.map_err(|error| {
        let name = file.display();
        Ending::Unmet(format!("{name}: {error}; `--save {name}` writes how the page looks now"))
    })
}

/// Returns how the page looks with the files of a folder, as PNG in base64.
fn shoot(program: &Path, args: &Args, folder: &Path) -> Result<String, Ending> {
    let (mut service, url) = args.service.start(folder)?;
    // The end of the service ends every process that this one started, so each picture has its own browser.
    let mut browser = Browser::start(program)?;
    let until = Instant::now() + args.service.wait();
    let shot = taken(&mut browser, args, &url, until);
    drop(browser);
    shot.map_err(|ending| service.with_output(ending))
}

fn taken(browser: &mut Browser, args: &Args, url: &str, until: Instant) -> Result<String, Ending> {
    browser.open("about:blank", until)?;
    let WindowSize { width, height } = args.size;
    let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", metrics, until)?;
    let still = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
    browser.call("Emulation.setEmulatedMedia", still, until)?;
    let opened = browser.call("Page.navigate", json!({"url": url}), until)?;
    if let Some(error) = opened["errorText"].as_str() {
        return Err(Ending::Unmet(format!("{url} cannot be opened: {error}")));
    }
    while browser.evaluate("document.readyState", until)? != "complete" {
        go_on()?;
        if Instant::now() >= until {
            return Err(Ending::Unmet(format!("{url} does not finish loading")));
        }
        browser.listen(PAUSE);
    }
    browser.evaluate("document.fonts.ready.then(() => true)", until)?;
    browser.listen(SETTLED);
    let shot = browser.call("Page.captureScreenshot", json!({"format": "png"}), until)?;
    let data = shot["data"].as_str().filter(|data| !data.is_empty());
    data.map(str::to_owned).ok_or_else(|| Ending::NotRun("the browser made no picture".to_owned()))
}

fn compare(program: &Path, expected: &str, seen: &str, wait: Duration) -> Result<Value, Ending> {
    let mut browser = Browser::start(program)?;
    let until = Instant::now() + wait;
    browser.open("about:blank", until)?;
    let call = format!("{COMPARE}({}, {}, {TOLERANCE})", json!(expected), json!(seen));
    browser.evaluate(&call, until)
}

/// Decides by what the browser found.
fn verdict(compared: &Value, name: &str, most: Percent) -> Result<String, Ending> {
    if compared["unread"] == 1 {
        return Err(Ending::Unmet(format!("{name} is no picture that the browser can read")));
    }
    let size = |at: usize| Some((compared["sizes"][at][0].as_u64()?, compared["sizes"][at][1].as_u64()?));
    let (Some(expected), Some(seen)) = (size(0), size(1)) else {
        return Err(Ending::NotRun("the browser did not compare the pictures".to_owned()));
    };
    if expected != seen {
        let [(ew, eh), (sw, sh)] = [expected, seen];
        return Err(Ending::Unmet(format!("{name} has {ew}x{eh} pixels, the page {sw}x{sh}; use --size")));
    }
    let Some(different) = compared["different"].as_u64() else {
        return Err(Ending::NotRun("the browser did not compare the pictures".to_owned()));
    };
    let share = different as f64 * 100.0 / (expected.0 * expected.1).max(1) as f64;
    if share <= most.0 {
        return Ok(format!("the page looks like {name} ({share:.2} % of the pixels differ)"));
    }
    let edge = |at: usize| compared["box"][at].as_u64().unwrap_or_default();
    let (left, top, right, bottom) = (edge(0), edge(1), edge(2), edge(3));
    Err(Ending::Unmet(format!(
        "{different} pixels ({share:.2} %) differ from {name}, between {left},{top} and {right},{bottom}; at most {} % may",
        most.0
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_width_and_a_height() {
        assert_eq!("390x844".parse(), Ok(WindowSize { width: 390, height: 844 }));
        for wrong in ["", "390", "0x10", "9000x10", "ax b"] {
            assert!(wrong.parse::<WindowSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_comparison_that_was_made_holds() {
        let most = Percent(1.0);
        let found = |value: Value| verdict(&value, "design.png", most);
        let sizes = json!([[10, 10], [10, 10]]);
        assert!(found(json!({"sizes": sizes, "different": 1, "box": [1, 1, 1, 1]})).is_ok());
        let differs = found(json!({"sizes": sizes, "different": 2, "box": [3, 4, 5, 6]}));
        let Err(Ending::Unmet(why)) = differs else { panic!("{differs:?}") };
        assert_eq!(why, "2 pixels (2.00 %) differ from design.png, between 3,4 and 5,6; at most 1 % may");
        assert!(matches!(found(json!({"sizes": [[10, 10], [10, 9]]})), Err(Ending::Unmet(_))));
        assert!(matches!(found(json!({"unread": 1})), Err(Ending::Unmet(_))));
        for nothing in [Value::Null, json!({"unread": 2}), json!({"sizes": sizes})] {
            assert!(matches!(found(nothing), Err(Ending::NotRun(_))));
        }
    }
}
