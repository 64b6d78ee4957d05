//! Holds a conversation with a child: passes its output to a [`Peer`] as it arrives, and writes the answers
//! to its stdin.
//!
//! **Invariant:** provost never blocks on a child that does not read, and the unwritten bytes are bounded.

use std::os::fd::OwnedFd;

use provost_core::model::plan::Stream;

use super::Tee;

/// Limit of unwritten bytes. Above it, the child does not read and its stdin is closed.
const UNSAID_MAX: usize = 64 << 20;

/// The other side of a child's conversation.
pub trait Peer {
    /// The child has started. Bytes put into `say` are written to its stdin, here and below.
    fn begin(&mut self, say: &mut Vec<u8>);
    fn hear(&mut self, stream: Stream, bytes: &[u8], say: &mut Vec<u8>);
    /// The child is about to be ended early.
    fn break_off(&mut self, say: &mut Vec<u8>);
    /// Returns whether neither side has anything more to say.
    fn is_over(&self) -> bool;
}

/// The receivers of a child's output: the callback, and the peer that answers.
pub(super) struct Ears<'t, 'p> {
    tee: Tee<'t>,
    talk: Option<Talk<'p>>,
}

struct Talk<'p> {
    peer: &'p mut dyn Peer,
    /// `None` once the child or provost has closed it.
    pipe: Option<OwnedFd>,
    unsaid: Vec<u8>,
}

impl<'t, 'p> Ears<'t, 'p> {
    pub(super) fn new(tee: Tee<'t>, peer: Option<&'p mut dyn Peer>) -> Self {
        Self { tee, talk: peer.map(|peer| Talk { peer, pipe: None, unsaid: Vec::new() }) }
    }

    pub(super) fn converse(&self) -> bool {
        self.talk.is_some()
    }

    pub(super) fn begin(&mut self, pipe: Option<OwnedFd>) {
        let Some(talk) = &mut self.talk else { return };
        talk.pipe = pipe.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok());
        talk.peer.begin(&mut talk.unsaid);
        talk.write();
    }

    pub(super) fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(tee) = &mut self.tee {
            tee(stream, bytes);
        }
        if let Some(talk) = &mut self.talk {
            talk.peer.hear(stream, bytes, &mut talk.unsaid);
            talk.write();
        }
    }

    /// Tells the child, through its peer, that it is being ended. Returns false if there is no
    /// conversation.
    pub(super) fn break_off(&mut self) -> bool {
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.pipe.is_some()) else { return false };
        talk.peer.break_off(&mut talk.unsaid);
        talk.write();
        true
    }

    /// Closes the child's stdin if the conversation is over. Returns true the first time.
    pub(super) fn part(&mut self) -> bool {
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.peer.is_over()) else { return false };
        talk.pipe.take().is_some()
    }

    /// Returns the pipe to poll for writing, if bytes are waiting.
    pub(super) fn mouth(&self) -> Option<&OwnedFd> {
        let talk = self.talk.as_ref().filter(|talk| !talk.unsaid.is_empty())?;
        talk.pipe.as_ref()
    }

    pub(super) fn speak(&mut self) {
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
                // The child does not read any more.
                Err(_) => {
                    self.pipe = None;
                    return self.unsaid.clear();
                }
            }
        }
    }
}
