//! Captures a child's output: its beginning, its end, and its total length.
//!
//! **Invariant:** memory is bounded by [`HeadAndTail`], however much is printed.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;

/// How many bytes of a stream are kept from its beginning and from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAndTail {
    pub head: usize,
    pub tail: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub head: Vec<u8>,
    /// Bytes kept after the head; they follow the head directly if nothing was left out.
    pub tail: Vec<u8>,
    pub bytes: u64,
}

impl Output {
    /// Returns whether nothing was left out.
    pub fn is_whole(&self) -> bool {
        self.bytes == (self.head.len() + self.tail.len()) as u64
    }
}

/// Returns both ends of a new pipe, and its inode.
pub(super) fn pipe() -> io::Result<(OwnedFd, PipeWriter, String)> {
    let (reader, writer) = io::pipe()?;
    let inode = rustix::fs::fstat(&reader)?.st_ino.to_string();
    Ok((reader.into(), writer, inode))
}

pub(super) struct Capture {
    keep: HeadAndTail,
    output: Output,
}

impl Capture {
    pub(super) fn new(keep: HeadAndTail) -> Self {
        Self { keep, output: Output::default() }
    }

    pub(super) fn take(&mut self, chunk: &[u8]) {
        let Output { head, tail, bytes } = &mut self.output;
        *bytes += chunk.len() as u64;
        let (to_head, rest) = chunk.split_at(chunk.len().min(self.keep.head - head.len()));
        head.extend_from_slice(to_head);
        // Let the tail grow to twice its size before it is cut, so that each byte is moved at most once.
        let rest = &rest[rest.len().saturating_sub(self.keep.tail)..];
        if tail.len() + rest.len() > 2 * self.keep.tail {
            cut_front(tail, self.keep.tail - rest.len());
        }
        tail.extend_from_slice(rest);
    }

    pub(super) fn finish(mut self) -> Output {
        cut_front(&mut self.output.tail, self.keep.tail);
        self.output
    }
}

fn cut_front(tail: &mut Vec<u8>, keep: usize) {
    if tail.len() > keep {
        let start = tail.len() - keep;
        tail.copy_within(start.., 0);
        tail.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, HeadAndTail};

    #[test]
    fn the_beginning_and_the_end_are_kept_however_the_chunks_fall() {
        let text: Vec<u8> = (0..=255).collect();
        for keep in [
            HeadAndTail { head: 0, tail: 0 },
            HeadAndTail { head: 7, tail: 5 },
            HeadAndTail { head: 200, tail: 100 },
        ] {
            for size in [1, 3, 64, 256] {
                let mut capture = Capture::new(keep);
                text.chunks(size).for_each(|chunk| capture.take(chunk));
                let output = capture.finish();
                let head = keep.head.min(256);
                assert_eq!(output.head, text[..head]);
                assert_eq!(output.tail, text[256 - keep.tail.min(256 - head)..]);
                assert_eq!(output.bytes, 256);
                assert_eq!(output.is_whole(), keep.head + keep.tail >= 256);
            }
        }
    }
}
