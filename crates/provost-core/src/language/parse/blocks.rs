//! Groups a Markdown text into the blocks that the plan reader needs.
//!
//! pulldown-cmark decides what is a heading, a fence or a comment; this file only groups its events, so that
//! the reader gets whole blocks with exact byte spans.
//!
//! **Invariant:** every byte of the text is read a bounded number of times.
//! **Invariant:** the content of comments and raw HTML goes to `hidden` only.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, OffsetIter, Options, Parser, Tag, TagEnd};

use super::pieces;
use crate::model::plan::Span;

/// A block at the top level of the text. One value is reused for all blocks, to save allocations.
#[derive(Debug, Default)]
pub(super) struct Block<'t> {
    pub kind: BlockKind,
    pub span: Span,
    /// The lines of a paragraph or an underlined heading.
    pub lines: Vec<ParagraphLine>,
    /// The visible text of a heading, piece by piece.
    pub pieces: Vec<(Span, CowStr<'t>)>,
    /// Comments and raw HTML, in order.
    pub hidden: Vec<Span>,
    /// The visible bytes of a container, in order.
    pub visible: Vec<Span>,
    pub fence: Option<CodeFence>,
    pub items: Vec<ListItem>,
    strongs: Vec<Strong>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BlockKind {
    Heading {
        level: u8,
        underlined: bool,
    },
    #[default]
    Paragraph,
    Fence,
    List,
    Html,
    /// A quotation, a rule or indented code: visible, but no field is read from it.
    Other,
}

/// A line of a paragraph, without surrounding white space.
#[derive(Clone, Debug)]
pub(super) struct ParagraphLine {
    pub span: Span,
    /// Bold text at its start.
    pub strong: Option<Strong>,
}

#[derive(Clone, Debug)]
pub(super) struct Strong {
    pub span: Span,
    /// The text between the stars.
    pub inner: Span,
    /// The visible text if it differs from the written one (entities, code, nested emphasis).
    pub disguise: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct CodeFence {
    pub span: Span,
    /// The first word of the info string, as a span of the text.
    pub info: Span,
    /// The rest of the info string, which is invisible in the rendered text.
    pub unseen_info: Span,
    pub body: Span,
    pub command: String,
    pub closed: bool,
}

#[derive(Debug)]
pub(super) struct ListItem {
    pub span: Span,
    pub parts: Vec<ItemPart>,
}

#[derive(Debug)]
pub(super) enum ItemPart {
    Text(Vec<ParagraphLine>),
    Fence(CodeFence),
}

pub(super) struct Blocks<'t> {
    text: &'t str,
    /// Start of the current piece.
    base: usize,
    /// End of the current piece.
    end: usize,
    /// Minimum length of a piece; `None` if the text must not be cut.
    piece: Option<usize>,
    events: OffsetIter<'t>,
}

fn events(text: &str, base: usize, end: usize) -> OffsetIter<'_> {
    Parser::new_ext(text.get(base..end).unwrap_or(""), Options::empty()).into_offset_iter()
}

impl<'t> Blocks<'t> {
    /// Reads `text` from byte `base` on; spans refer to the whole text.
    pub(super) fn new(text: &'t str, base: usize, piece: usize) -> Self {
        let piece = pieces::can_be_cut(text).then_some(piece);
        let end = piece.map_or(text.len(), |piece| pieces::end(text, base, piece));
        Self { text, base, end, piece, events: events(text, base, end) }
    }

    fn event(&mut self) -> Option<(Event<'t>, Span)> {
        loop {
            if let Some((event, range)) = self.events.next() {
                return Some((event, self.span(range)));
            }
            let piece = self.piece.filter(|_| self.end < self.text.len())?;
            self.base = self.end;
            self.end = pieces::end(self.text, self.base, piece);
            self.events = events(self.text, self.base, self.end);
        }
    }

    fn span(&self, range: Range<usize>) -> Span {
        Span::new(range.start + self.base, range.end + self.base)
    }

    /// Fills `block` with the next block; returns `false` at the end.
    pub(super) fn next(&mut self, block: &mut Block<'t>) -> bool {
        block.clear();
        let Some((event, span)) = self.event() else { return false };
        block.span = span;
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let underlined = !self.text[span.start..].starts_with('#');
                block.kind = BlockKind::Heading { level: level as u8, underlined };
                self.inlines(block, true);
                if underlined {
                    lines(self.text, span, &mut block.strongs, &mut block.lines);
                    // The underline is not a line of the text.
                    block.lines.pop();
                }
            }
            Event::Start(Tag::Paragraph) => {
                block.kind = BlockKind::Paragraph;
                self.inlines(block, false);
                lines(self.text, span, &mut block.strongs, &mut block.lines);
            }
            Event::Start(Tag::CodeBlock(kind)) => self.code(block, kind),
            Event::Start(Tag::List(_)) => {
                block.kind = BlockKind::List;
                self.container(block);
            }
            Event::Start(Tag::HtmlBlock) => {
                block.kind = BlockKind::Html;
                block.hidden.push(span);
                self.skip();
            }
            Event::Html(_) | Event::InlineHtml(_) => {
                block.kind = BlockKind::Html;
                block.hidden.push(span);
            }
            Event::Start(_) => {
                block.kind = BlockKind::Other;
                self.container(block);
            }
            Event::End(_) => block.kind = BlockKind::Other,
            Event::Rule
            | Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::TaskListMarker(_) => {
                block.kind = BlockKind::Other;
                block.visible.push(span);
            }
        }
        true
    }

    /// Reads a code block at the top level.
    fn code(&mut self, block: &mut Block<'t>, kind: CodeBlockKind<'t>) {
        match kind {
            CodeBlockKind::Fenced(info) => {
                block.kind = BlockKind::Fence;
                block.fence = Some(self.fence(block.span, &info));
            }
            CodeBlockKind::Indented => {
                block.kind = BlockKind::Other;
                block.visible.push(block.span);
                self.skip();
            }
        }
    }

    /// Consumes everything up to the end of the element that was just opened.
    fn skip(&mut self) {
        let mut depth = 1;
        for (event, _) in self.events.by_ref() {
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads the inline content of a heading or a paragraph.
    fn inlines(&mut self, block: &mut Block<'t>, keep_pieces: bool) {
        let mut depth = 0;
        while let Some((event, span)) = self.event() {
            match event {
                Event::Start(tag) => {
                    if matches!(tag, Tag::Strong) && depth == 0 {
                        self.strong(block, span, keep_pieces);
                    } else {
                        depth += 1;
                    }
                }
                Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) if depth == 0 => return,
                Event::End(_) => depth -= 1,
                Event::InlineHtml(_) | Event::Html(_) => block.hidden.push(span),
                Event::Text(piece) | Event::Code(piece) if keep_pieces => block.pieces.push((span, piece)),
                Event::SoftBreak | Event::HardBreak if keep_pieces => {
                    block.pieces.push((span, CowStr::Borrowed(" ")));
                }
                _ => {}
            }
        }
    }

    /// Records bold text and its visible form.
    fn strong(&mut self, block: &mut Block<'t>, span: Span, keep_pieces: bool) {
        let inner = Span::new(span.start + 2, span.end.saturating_sub(2).max(span.start + 2));
        let mut shown = String::new();
        let mut plain = true;
        let mut depth = 1;
        while let Some((event, at)) = self.event() {
            match event {
                Event::Start(_) => {
                    depth += 1;
                    plain = false;
                }
                Event::End(_) => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Event::Text(piece) => {
                    plain &= at == inner;
                    if !plain {
                        shown.push_str(&piece);
                    }
                    if keep_pieces {
                        block.pieces.push((at, piece));
                    }
                }
                Event::Code(piece) => {
                    plain = false;
                    shown.push_str(&piece);
                    if keep_pieces {
                        block.pieces.push((at, piece));
                    }
                }
                Event::InlineHtml(_) | Event::Html(_) => {
                    plain = false;
                    block.hidden.push(at);
                }
                _ => plain = false,
            }
        }
        block.strongs.push(Strong { span, inner, disguise: (!plain).then_some(shown) });
    }

    /// Reads a list, a quotation or another element that contains blocks.
    fn container(&mut self, block: &mut Block<'t>) {
        let mut depth = 1usize;
        let mut open_text: Option<Span> = None;
        while let Some((event, span)) = self.event() {
            match event {
                Event::Start(tag) => {
                    let inline = is_inline(&tag);
                    if !inline {
                        self.close_text(block, depth, &mut open_text);
                    }
                    match tag {
                        Tag::Strong => {
                            widen(&mut open_text, span);
                            self.strong(block, span, false);
                            block.visible.push(span);
                            continue;
                        }
                        Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                            self.fence_within(block, span, &info, depth);
                            continue;
                        }
                        Tag::CodeBlock(CodeBlockKind::Indented) => block.visible.push(span),
                        Tag::HtmlBlock => {
                            block.hidden.push(span);
                            self.skip();
                            continue;
                        }
                        Tag::Item if depth == 1 => block.items.push(ListItem { span, parts: Vec::new() }),
                        _ => {}
                    }
                    depth += 1;
                }
                Event::End(end) => {
                    if !is_inline_end(&end) {
                        self.close_text(block, depth, &mut open_text);
                    }
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                Event::Html(_) | Event::InlineHtml(_) => {
                    widen(&mut open_text, span);
                    block.hidden.push(span);
                }
                Event::Rule => block.visible.push(span),
                Event::Text(_)
                | Event::Code(_)
                | Event::InlineMath(_)
                | Event::DisplayMath(_)
                | Event::FootnoteReference(_)
                | Event::SoftBreak
                | Event::HardBreak
                | Event::TaskListMarker(_) => {
                    widen(&mut open_text, span);
                    block.visible.push(span);
                }
            }
        }
    }

    /// Reads a fence in a container: a part of its list item, or only visible text.
    fn fence_within(&mut self, block: &mut Block<'t>, span: Span, info: &str, depth: usize) {
        let fence = self.fence(span, info);
        block.visible.push(span);
        if !fence.unseen_info.is_empty() {
            block.hidden.push(fence.unseen_info);
        }
        if depth == 2 && block.kind == BlockKind::List {
            if let Some(item) = block.items.last_mut() {
                item.parts.push(ItemPart::Fence(fence));
            }
        } else if !fence.closed {
            block.fence = Some(fence);
        }
    }

    /// Adds text of an item of the outermost list to its parts; other text is only visible.
    fn close_text(&self, block: &mut Block<'t>, depth: usize, open: &mut Option<Span>) {
        let Some(span) = open.take() else { return };
        // Depth 2 is a tight item, depth 3 the paragraph of a loose one.
        if block.kind == BlockKind::List
            && depth <= 3
            && let Some(item) = block.items.last_mut()
        {
            let mut found = Vec::with_capacity(1);
            lines(self.text, span, &mut block.strongs, &mut found);
            item.parts.push(ItemPart::Text(found));
        }
    }

    /// Reads the content of a fenced block up to its end.
    fn fence(&mut self, span: Span, info: &str) -> CodeFence {
        let mut command = String::with_capacity(span.end - span.start);
        let mut body = None::<Span>;
        while let Some((event, at)) = self.event() {
            match event {
                Event::Text(piece) => {
                    widen(&mut body, at);
                    command.push_str(&piece);
                }
                Event::End(_) => break,
                _ => {}
            }
        }
        if command.contains('\r') {
            command = command.replace("\r\n", "\n");
        }
        if command.ends_with('\n') {
            command.pop();
        }
        let raw = span.of(self.text);
        let after_opening = span.start + raw.find('\n').map_or(raw.len(), |at| at + 1);
        let body = body.unwrap_or(Span::at(after_opening));
        let (info, unseen_info) = info_spans(self.text, span, after_opening, info);
        CodeFence { span, info, unseen_info, body, command, closed: is_closed(raw) }
    }
}

impl Block<'_> {
    fn clear(&mut self) {
        self.kind = BlockKind::Paragraph;
        self.lines.clear();
        self.pieces.clear();
        self.hidden.clear();
        self.visible.clear();
        self.fence = None;
        self.items.clear();
        self.strongs.clear();
    }

    /// Returns the bold text in a container, to find fields at places where fields are not read.
    pub(super) fn strongs(&self) -> &[Strong] {
        &self.strongs
    }
}

fn widen(open: &mut Option<Span>, by: Span) {
    *open = Some(match *open {
        Some(span) => Span::new(span.start.min(by.start), span.end.max(by.end)),
        None => by,
    });
}

fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. })
}

fn is_inline_end(end: &TagEnd) -> bool {
    matches!(end, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// Collects the lines of `span`, each with the bold text at its start. `strongs` is sorted by start.
fn lines(text: &str, span: Span, strongs: &mut Vec<Strong>, found: &mut Vec<ParagraphLine>) {
    let raw = span.of(text);
    let mut start = span.start;
    let mut strongs = strongs.drain(..).peekable();
    for line in raw.split('\n') {
        let content = line.trim_start_matches([' ', '\t']);
        let from = start + (line.len() - content.len());
        let content = content.trim_end();
        while strongs.next_if(|strong| strong.span.start < from).is_some() {}
        let strong = strongs.next_if(|strong| strong.span.start == from);
        found.push(ParagraphLine { span: Span::new(from, from + content.len()), strong });
        start += line.len() + 1;
    }
    // The span of a paragraph ends with its line break.
    while found.last().is_some_and(|line| line.span.is_empty()) {
        found.pop();
    }
}

/// Returns whether the last line of a fenced block is its closing fence.
fn is_closed(raw: &str) -> bool {
    let opening = raw.trim_start_matches([' ', '\t', '>']);
    let Some(mark) = opening.chars().next() else { return false };
    let width = opening.chars().take_while(|c| *c == mark).count();
    let raw = raw.trim_end_matches(['\n', '\r']);
    let Some(at) = raw.rfind('\n') else { return false };
    let last = raw[at + 1..].trim_matches([' ', '\t', '>', '\r']);
    last.len() >= width && last.chars().all(|c| c == mark)
}

/// Returns the spans of the first word of the info string and of the rest.
fn info_spans(text: &str, span: Span, after_opening: usize, info: &str) -> (Span, Span) {
    let line = text.get(span.start..after_opening).unwrap_or("").trim_end();
    let end = span.start + line.len();
    if info.is_empty() {
        return (Span::at(end), Span::at(end));
    }
    let rest = line.trim_start_matches([' ', '\t', '>']).trim_start_matches(['`', '~']).trim_start();
    let start = end - rest.len();
    let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
    (Span::new(start, start + word), Span::new(start + word, end))
}
