//! Runs the contract on changed trees, several at the same time, until every hunk is decided or the time is
//! over.
//!
//! First each hunk is taken out, the most suspicious first; then come the sabotages of those that are still
//! open. So the most is known early.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::language::hunks::{self, Hunk, HunkSubject};
use provost_core::model::proof_map::{HunkMark, HunkProof, ProofMap, VariantRun};
use provost_core::model::verdict::{CheckEnvironment, CheckOutcome, Verdict};
use provost_core::rules::proof_map;
use provost_host::Interrupted;
use provost_host::exec::environment::FileEdit;

use super::cache::MapCache;
use super::change::{Change, ChangedFile};
use super::{MapEvent, MapListener, MapSettings, VariedContract};

/// A changed tree may make the contract run longer, for example in an endless loop. This much longer than on
/// the judged tree counts as noticed.
const TIMES_LONGER: u32 = 5;
const LONGER: Duration = Duration::from_secs(30);
const OUT_OF_TIME: &str = "the time limit was reached";
const BROKEN: &str = "the contract does not hold on the judged tree";

pub(super) struct Trials<'t> {
    pub contract: &'t dyn VariedContract,
    pub stop: &'t AtomicBool,
    pub settings: &'t MapSettings,
    /// The environment that the step was judged in.
    pub recorded: Option<&'t CheckEnvironment>,
    pub watch: MapListener<'t>,
}

pub(super) struct TriedChange {
    pub map: ProofMap,
    pub runs: usize,
    pub broken: Option<Box<Verdict>>,
    pub interrupted: bool,
}

/// A hunk with the runs that are known of it.
struct Item<'c> {
    file: &'c ChangedFile,
    hunk: &'c Hunk,
    digest: String,
    runs: Vec<VariantRun>,
    /// Every run was known before.
    cached: bool,
}

/// One change of a tree.
struct Variant {
    change: String,
    text: Option<String>,
}

impl Item<'_> {
    /// Returns the next change to try; `None` if the hunk is decided.
    fn next(&self) -> Option<Variant> {
        if proof_map::is_decided(&self.runs) {
            return None;
        }
        let texts = self.file.texts();
        let Some(sabotage) = self.runs.len().checked_sub(1) else {
            return Some(Variant { change: "taken out".to_owned(), text: self.hunk.reversed(&texts) });
        };
        let sabotage = self.hunk.sabotages(&texts).into_iter().nth(sabotage)?;
        let text = Some(sabotage.applied(texts.new?));
        Some(Variant { change: format!("line {}: {}", sabotage.line + 1, sabotage.what), text })
    }

    fn proof(&self, untried: Option<&str>) -> HunkProof {
        let (mark, why) = match (self.hunk.subject.why_no_code(), untried) {
            (Some(why), _) if self.runs.is_empty() => (HunkMark::NotTried, why),
            (_, Some(why)) => (HunkMark::NotTried, why.to_owned()),
            _ => proof_map::mark(&self.runs),
        };
        let hunk = self.hunk;
        HunkProof {
            path: hunk.path.clone(),
            first_line: hunk.shown.start + 1,
            last_line: hunk.shown.end.max(hunk.shown.start + 1),
            added_lines: hunk.shown.len(),
            removed_lines: hunk.old.len(),
            is_code: hunk.subject == HunkSubject::Code,
            mark,
            why,
            runs: self.runs.clone(),
            cached: self.cached && !self.runs.is_empty(),
        }
    }
}

/// What the workers share.
struct Shared<'c> {
    queue: Mutex<Queue<'c>>,
    cache: Mutex<MapCache>,
    runs: AtomicUsize,
    done: AtomicUsize,
    interrupted: AtomicBool,
}

#[derive(Default)]
struct Queue<'c> {
    waiting: VecDeque<Item<'c>>,
    decided: Vec<Item<'c>>,
    /// Items that a worker has.
    taken: usize,
}

impl Trials<'_> {
    pub(super) fn run(&self, change: &Change, cache: MapCache) -> TriedChange {
        let ends = Instant::now() + self.settings.time_limit;
        let mut cache = cache;
        let mut items = items(change, &cache, self.settings.all);
        let open = |items: &[Item<'_>]| items.iter().filter(|item| item.next().is_some()).count();
        let (hunks, to_try) = (items.len(), open(&items));
        let mut tried = TriedChange { map: ProofMap::default(), runs: 0, broken: None, interrupted: false };
        if to_try > 0 {
            (self.watch)(MapEvent::Begun { level: self.contract.level(), hunks, known: hunks - to_try });
            let Ok(control) = self.contract.control() else {
                tried.interrupted = true;
                tried.map = mapped(change, items, "it was interrupted");
                return tried;
            };
            tried.runs = 1;
            if !control.held() {
                tried.map = mapped(change, items, BROKEN);
                tried.broken = Some(Box::new(control));
                return tried;
            }
            if let Some(other) = self.other_environment(&control) {
                (self.watch)(MapEvent::OtherEnvironment(other));
                let now = control.environment.as_ref().map(|now| now.sha256.as_str());
                cache = cache.moved(now);
                items = self::items(change, &cache, self.settings.all);
            }
            let shared = self.try_all(items, cache, &control, ends);
            tried.runs += shared.runs.into_inner();
            tried.interrupted = shared.interrupted.into_inner();
            let Queue { waiting, decided, .. } =
                shared.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
            items = decided.into_iter().chain(waiting).collect();
        }
        let why = if tried.interrupted { "it was interrupted" } else { OUT_OF_TIME };
        tried.map = mapped(change, items, why);
        tried
    }

    /// Returns how the environment of the control differs from the recorded one.
    fn other_environment(&self, control: &Verdict) -> Option<String> {
        let now = control.environment.as_deref()?;
        match self.recorded {
            Some(recorded) => recorded.difference(now),
            None => None,
        }
    }

    fn try_all<'c>(
        &self,
        items: Vec<Item<'c>>,
        cache: MapCache,
        control: &Verdict,
        ends: Instant,
    ) -> Shared<'c> {
        let mut queue = Queue::default();
        for item in items {
            match item.next().is_some() {
                true => queue.waiting.push_back(item),
                false => queue.decided.push(item),
            }
        }
        let jobs = self.settings.jobs.min(queue.waiting.len()).max(1);
        let shared = Shared {
            done: AtomicUsize::new(queue.decided.len()),
            queue: Mutex::new(queue),
            cache: Mutex::new(cache),
            runs: AtomicUsize::new(0),
            interrupted: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for worker in 1..=jobs {
                let shared = &shared;
                scope.spawn(move || self.work(shared, control, ends, worker));
            }
        });
        shared
    }

    fn work(&self, shared: &Shared<'_>, control: &Verdict, ends: Instant, worker: usize) {
        while !self.stop.load(Ordering::Relaxed) && Instant::now() < ends {
            let Some(mut item) = shared.take() else {
                // A hunk that another worker has may need one more run.
                match shared.is_over() {
                    true => return,
                    false => std::thread::sleep(Duration::from_millis(5)),
                }
                continue;
            };
            let ran = item.next().map(|variant| self.try_one(&item, &variant, control, ends, worker));
            match ran {
                Some(Ok(Some(run))) => {
                    shared.runs.fetch_add(1, Ordering::Relaxed);
                    item.runs.push(run);
                    item.cached = false;
                    locked(&shared.cache).keep(&item.digest, &item.runs);
                }
                Some(Err(Interrupted)) => shared.interrupted.store(true, Ordering::Relaxed),
                // There was no time to run it to its end.
                Some(Ok(None)) | None => {}
            }
            let is_decided = item.next().is_none();
            if is_decided {
                let done = shared.done.fetch_add(1, Ordering::Relaxed) + 1;
                let of = shared.number(1);
                (self.watch)(MapEvent::Decided { hunk: &item.proof(None), done, of });
            }
            shared.put(item, is_decided);
            if shared.interrupted.load(Ordering::Relaxed) {
                return;
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            shared.interrupted.store(true, Ordering::Relaxed);
        }
    }

    /// Runs the contract on one changed tree; `None` if the time limit ended the run.
    fn try_one(
        &self,
        item: &Item<'_>,
        variant: &Variant,
        control: &Verdict,
        ends: Instant,
        worker: usize,
    ) -> Result<Option<VariantRun>, Interrupted> {
        let usual = Duration::from_millis(control.duration_ms);
        let own = self.contract.timeout().min(usual * TIMES_LONGER + LONGER);
        let left = ends.saturating_duration_since(Instant::now());
        let edit = FileEdit { path: Path::new(&item.hunk.path), text: variant.text.as_deref() };
        let verdict = self.contract.varied(&edit, own.min(left), worker)?;
        if matches!(verdict.outcome, CheckOutcome::TimedOut { .. }) && left < own {
            return Ok(None);
        }
        let mut run = proof_map::read(variant.change.clone(), &verdict, control);
        run.why = self.contract.redacted(&run.why);
        run.change = self.contract.redacted(&run.change);
        Ok(Some(run))
    }
}

impl<'c> Shared<'c> {
    fn take(&self) -> Option<Item<'c>> {
        let mut queue = locked(&self.queue);
        let item = queue.waiting.pop_front()?;
        queue.taken += 1;
        Some(item)
    }

    fn put(&self, item: Item<'c>, is_decided: bool) {
        let mut queue = locked(&self.queue);
        queue.taken -= 1;
        match is_decided {
            true => queue.decided.push(item),
            false => queue.waiting.push_back(item),
        }
    }

    fn is_over(&self) -> bool {
        let queue = locked(&self.queue);
        queue.waiting.is_empty() && queue.taken == 0
    }

    /// Returns the number of all hunks; `held` are with the caller.
    fn number(&self, held: usize) -> usize {
        let queue = locked(&self.queue);
        queue.waiting.len() + queue.decided.len() + queue.taken.max(held)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the hunks to try, the most suspicious first, with what is known of them.
fn items<'c>(change: &'c Change, cache: &MapCache, all: bool) -> Vec<Item<'c>> {
    let files = change.files.iter().flat_map(|file| file.hunks.iter().map(move |hunk| (file, hunk)));
    let wanted: Vec<(&ChangedFile, &Hunk)> =
        files.filter(|(_, hunk)| all || hunk.subject == HunkSubject::Code).collect();
    let mut ranked: Vec<&Hunk> = wanted.iter().map(|(_, hunk)| *hunk).collect();
    hunks::rank(&mut ranked);
    let found = ranked.into_iter().filter_map(|hunk| {
        let (file, _) = wanted.iter().find(|(_, own)| std::ptr::eq(*own, hunk))?;
        let digest = hunk.digest(&file.texts());
        let runs = cache.runs(&digest);
        Some(Item { file, hunk, digest, runs, cached: true })
    });
    found.collect()
}

/// Returns the map in the order of files and lines. `untried` says why a hunk is not decided.
fn mapped(change: &Change, items: Vec<Item<'_>>, untried: &str) -> ProofMap {
    let mut hunks = Vec::new();
    for file in &change.files {
        hunks.extend(file.unread.map(|why| file.without_hunks(why)));
        for hunk in &file.hunks {
            let item = items.iter().find(|item| std::ptr::eq(item.hunk, hunk));
            hunks.push(match item {
                Some(item) => item.proof(item.next().is_some().then_some(untried)),
                None => {
                    let digest = String::new();
                    Item { file, hunk, digest, runs: Vec::new(), cached: false }.proof(None)
                }
            });
        }
    }
    ProofMap { hunks }
}

/// Returns the map by what is known.
pub(super) fn from_cache(change: &Change, cache: &MapCache) -> ProofMap {
    let mut items = items(change, cache, true);
    items.retain(|item| item.hunk.subject == HunkSubject::Code || !item.runs.is_empty());
    mapped(change, items, "see `provost proved`")
}
