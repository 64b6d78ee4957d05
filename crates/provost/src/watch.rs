//! The terminal view: the agenda, a plan, the log and the inbox, live.
//!
//! All input arrives on one channel: keys, new log events, signals. After each the view updates its state,
//! reads what it needs and draws the screen. `read.rs` asks the engine, `view.rs` holds the view state,
//! `draw.rs` renders both, `decide.rs` carries out a person's decisions.
//!
//! **Invariant:** the view does not wake up without cause; if no agent works, the clock is updated twice a
//! minute.

mod decide;
mod draw;
mod guard;
mod keys;
mod known;
mod read;
pub(crate) mod text;
mod view;

use std::io::BufWriter;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use provost_core::model::chain::PlanId;
use provost_engine::observe::overview::Overview;
use provost_engine::plan::plan_registry::Here;
use provost_engine::settings::EngineSettings;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::{outcome, terminal};
use decide::Decision;
use draw::Ink;
use guard::Guard;
use keys::Intent;
use known::{Known, Tone};
use read::Reader;
use view::{View, Wish};

/// Minimum time between two reads.
const BREATH: Duration = Duration::from_millis(40);
/// Timeout of one wait for the log; new events end it earlier.
const NIGHT: Duration = Duration::from_secs(3600);
/// Clock interval: slow if no agent works, quick if one does.
const SLOW: Duration = Duration::from_secs(30);
const QUICK: Duration = Duration::from_secs(1);

pub(crate) struct Options {
    /// The plan that is opened first.
    pub plan: Option<PlanId>,
    /// Only plans of the current repository.
    pub here: bool,
    pub colour: bool,
    pub mouse: bool,
    pub by: String,
}

/// An input of the main loop.
enum Came {
    Input(Event),
    /// The log has new events.
    News,
    Resized,
    Stop,
    Continued,
    Failed(Failure),
}

type Screen = Terminal<CrosstermBackend<BufWriter<std::io::Stdout>>>;

pub(crate) fn look(settings: EngineSettings, options: Options) -> Answer {
    let here = options.here.then(|| Here::of(&settings.cwd));
    let overview = Arc::new(Overview::open(settings)?);
    let (tell, told) = mpsc::channel();
    heed_signals(tell.clone())?;
    let guard = Guard::take(options.mouse)?;
    listen(tell.clone());
    follow(overview.clone(), tell);
    let out = BufWriter::with_capacity(1 << 16, std::io::stdout());
    let screen = Terminal::new(CrosstermBackend::new(out)).map_err(unwritten)?;
    let known = Known { by: options.by, ..Known::default() };
    let watch = Watch {
        reader: Reader::new(overview.clone(), here),
        overview,
        view: View::new(options.plan),
        known,
        ink: Ink { colour: options.colour },
        screen,
        guard,
    };
    watch.run(&told)
}

fn unwritten(source: std::io::Error) -> Failure {
    Failure::Io { what: "draw on the terminal".to_owned(), source }
}

struct Watch {
    overview: Arc<Overview>,
    reader: Reader,
    view: View,
    known: Known,
    ink: Ink,
    /// Dropped before the guard, so that nothing is written after the terminal is restored.
    screen: Screen,
    guard: Guard,
}

impl Watch {
    fn run(mut self, told: &Receiver<Came>) -> Answer {
        self.read();
        self.draw()?;
        let mut read_at: Option<Instant> = None;
        let mut last = Instant::now();
        loop {
            let tick = if self.known.is_busy() || self.reader.gate_is_looked_at { QUICK } else { SLOW };
            let patience = read_at.map_or(tick, |due| due.saturating_duration_since(Instant::now()));
            let mut came = match told.recv_timeout(patience) {
                Ok(first) => vec![first],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Interrupted),
            };
            came.extend(told.try_iter().take(256));
            for came in came {
                match came {
                    Came::News => read_at = read_at.or(Some(last + BREATH)),
                    Came::Input(event) => {
                        let Some(intent) = keys::intent(&event, self.view.mode()) else { continue };
                        if self.obey(intent)? {
                            return Ok(Outcome::Done);
                        }
                    }
                    Came::Resized => {}
                    Came::Stop => self.suspend()?,
                    Came::Continued => self.come_back()?,
                    Came::Failed(failure) => return Err(failure),
                }
            }
            if read_at.is_some_and(|due| due <= Instant::now()) {
                self.read();
                (read_at, last) = (None, Instant::now());
            }
            // Live output and base checks are not events, so they are polled.
            if self.reader.is_more_printed(&self.known) || self.reader.gate_is_looked_at {
                self.read();
            }
            self.known.now = terminal::now();
            self.draw()?;
        }
    }

    /// Carries out an intent; returns `true` if the person quits.
    fn obey(&mut self, intent: Intent) -> Result<bool, Failure> {
        match self.view.hear(intent, &self.known) {
            Wish::Nothing => {}
            Wish::Read => {
                // A slow read shows an empty screen first.
                if self.view.open_gate().is_some() {
                    self.known.gate = None;
                    self.draw()?;
                }
                self.read();
            }
            Wish::Decide(decision) => self.decide(decision)?,
            Wish::Mouse => {
                let wanted = !self.guard.has_mouse();
                self.guard.mouse(wanted);
                let words = if wanted { "the mouse is on" } else { "the mouse is off: select text with it" };
                self.view.note = Some((Tone::Quiet, words.to_owned()));
            }
            Wish::Redraw => self.screen.clear().map_err(unwritten)?,
            Wish::Suspend => self.suspend()?,
            Wish::Quit => return Ok(true),
        }
        Ok(false)
    }

    fn read(&mut self) {
        self.reader.read(&self.view, &mut self.known);
        self.view.settle(&self.known);
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let _pen = guard::pen();
        let (known, view, ink) = (&self.known, &self.view, self.ink);
        let mut areas = view::Areas::default();
        let drawn = self.screen.draw(|frame| areas = draw::screen(frame.buffer_mut(), known, view, ink));
        drawn.map(drop).map_err(unwritten)?;
        self.view.areas = areas;
        Ok(())
    }

    fn decide(&mut self, decision: Decision) -> Result<(), Failure> {
        self.view.note = Some((Tone::Busy, "deciding …".to_owned()));
        self.draw()?;
        let note = match decide::carry_out(&self.overview, decision, &self.known.by) {
            Ok(words) => (Tone::Good, words),
            Err(failure) => {
                let hint = outcome::hint(&failure).map(|hint| format!(" {hint}")).unwrap_or_default();
                (Tone::Bad, format!("{}.{hint}", read::words(&failure)))
            }
        };
        self.view.decided((note.0, text::line(&note.1)));
        self.reader.forget_gate();
        self.read();
        Ok(())
    }

    /// Gives the terminal to the shell until it continues this process.
    fn suspend(&mut self) -> Result<(), Failure> {
        let own = rustix::process::getpid();
        if rustix::process::getsid(None) == Ok(own) {
            self.view.note = Some((Tone::Wait, "there is no shell to go back to".to_owned()));
            return Ok(());
        }
        {
            let _pen = guard::pen();
            guard::leave();
        }
        let stopped = signal_hook::low_level::emulate_default_handler(SIGTSTP);
        stopped.map_err(|source| Failure::Io { what: "stop this process".to_owned(), source })?;
        self.come_back()
    }

    /// Takes the terminal again; other programs may have changed its state.
    fn come_back(&mut self) -> Result<(), Failure> {
        let _pen = guard::pen();
        self.guard.enter()?;
        self.screen.clear().map_err(unwritten)
    }
}

/// Handles signals. Signals that end the program do so at once in this thread, because others may be blocked.
fn heed_signals(tell: Sender<Came>) -> Result<(), Failure> {
    let all = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH];
    let mut signals =
        Signals::new(all).map_err(|source| Failure::Io { what: "listen to signals".to_owned(), source })?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let came = match signal {
                SIGTSTP => Came::Stop,
                SIGCONT => Came::Continued,
                SIGWINCH => Came::Resized,
                _ => guard::end(outcome::INTERRUPTED),
            };
            if tell.send(came).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reads keys and the mouse. A closed terminal ends the program, even without a signal.
fn listen(tell: Sender<Came>) {
    std::thread::spawn(move || {
        let stdin = std::io::stdin();
        loop {
            let mut waited = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            match rustix::event::poll(&mut waited, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => guard::end(outcome::INTERRUPTED),
                Ok(_) => {}
            }
            if waited[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                guard::end(outcome::INTERRUPTED);
            }
            loop {
                // With a timeout of zero it would not read at all.
                let is_there = event::poll(Duration::from_millis(1));
                let event = match is_there.and_then(|is_there| is_there.then(event::read).transpose()) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(_) => guard::end(outcome::INTERRUPTED),
                };
                if tell.send(Came::Input(event)).is_err() {
                    return;
                }
            }
        }
    });
}

/// Reports new events of the log.
fn follow(overview: Arc<Overview>, tell: Sender<Came>) {
    std::thread::spawn(move || {
        let mut seen = match overview.cursor() {
            Ok(cursor) => cursor,
            Err(error) => return drop(tell.send(Came::Failed(error.into()))),
        };
        // Events may have arrived between the first read and the first wait.
        let mut came = Some(Came::News);
        loop {
            if let Some(came) = came.take()
                && tell.send(came).is_err()
            {
                return;
            }
            match overview.wait(seen, NIGHT) {
                Ok(now) if now == seen => {}
                Ok(now) => (seen, came) = (now, Some(Came::News)),
                Err(error) => return drop(tell.send(Came::Failed(error.into()))),
            }
        }
    });
}
