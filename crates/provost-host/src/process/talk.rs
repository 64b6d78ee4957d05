//! A conversation with a child: what it prints is heard as it comes, and what is said goes to its stdin.
//!
//! **Invariant:** whoever does not listen is not waited for, and what was not said yet is bounded.

use std::os::fd::OwnedFd;

use provost_core::model::plan::Stream;

use super::Tee;

/// More than this waits for nobody: the child does not read.
const UNSAID_MAX: usize = 64 << 20;

/// The other side of a child's conversation.
pub trait Peer {
    /// The child is there. What is put into `say` is written to its stdin, here and below.
    fn begin(&mut self, say: &mut Vec<u8>);
    fn hear(&mut self, stream: Stream, bytes: &[u8], say: &mut Vec<u8>);
    /// The child is about to be ended before its time.
    fn break_off(&mut self, say: &mut Vec<u8>);
    /// Nothing more is to be said by either.
    fn is_over(&self) -> bool;
}

/// Who hears a child, and who answers it.
pub(super) struct Ears<'t, 'p> {
    tee: Tee<'t>,
    talk: Option<Talk<'p>>,
}

struct Talk<'p> {
    peer: &'p mut dyn Peer,
    /// Nothing once the child, or we, have closed it.
    pipe: Option<OwnedFd>,
    unsaid: Vec<u8>,
}

impl<'t, 'p> Ears<'t, 'p> {
    pub fn new(tee: Tee<'t>, peer: Option<&'p mut dyn Peer>) -> Self {
        Self { tee, talk: peer.map(|peer| Talk { peer, pipe: None, unsaid: Vec::new() }) }
    }

    pub fn converse(&self) -> bool {
        self.talk.is_some()
    }

    pub fn begin(&mut self, pipe: Option<OwnedFd>) {
        let Some(talk) = &mut self.talk else { return };
        talk.pipe = pipe.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok());
        talk.peer.begin(&mut talk.unsaid);
        talk.write();
    }

    pub fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(tee) = &mut self.tee {
            tee(stream, bytes);
        }
        if let Some(talk) = &mut self.talk {
            talk.peer.hear(stream, bytes, &mut talk.unsaid);
            talk.write();
        }
    }

    /// True where there is somebody to tell.
    pub fn break_off(&mut self) -> bool {
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.pipe.is_some()) else { return false };
        talk.peer.break_off(&mut talk.unsaid);
        talk.write();
        true
    }

    /// True once: all was said, and the child is told so by the end of its stdin.
    pub fn part(&mut self) -> bool {
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.peer.is_over()) else { return false };
        talk.pipe.take().is_some()
    }

    /// Where something is waiting to be said.
    pub fn mouth(&self) -> Option<&OwnedFd> {
        let talk = self.talk.as_ref().filter(|talk| !talk.unsaid.is_empty())?;
        talk.pipe.as_ref()
    }

    pub fn speak(&mut self) {
        if let Some(talk) = &mut self.talk {
            talk.write();
        }
    }
}

impl Talk<'_> {
    fn write(&mut self) {
        let Some(pipe) = &self.pipe else { return self.unsaid.clear() };
        while !self.unsaid.is_empty() {
            match rustix::io::write(pipe, &self.unsaid) {
                Ok(count) => drop(self.unsaid.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if self.unsaid.len() <= UNSAID_MAX => return,
                // It does not listen any more.
                Err(_) => {
                    self.pipe = None;
                    return self.unsaid.clear();
                }
            }
        }
    }
}
