//! Checks the words that the program shows: help texts, messages, errors, descriptions of tools.
//!
//! The texts are read from the syntax of the shipped source: every string literal, also inside macros and
//! attributes, and the doc comments that clap turns into help.

use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};

use crate::plain_words;
use crate::structure::{is_for_tests, sources};

/// Source whose texts are in plain words. Add a folder when its texts are done.
const FINISHED: &[&str] = &[
    "crates/provost/src",
    "crates/provost-agent/src",
    "crates/provost-core/src",
    "crates/provost-dbos/src",
    "crates/provost-engine/src",
    "crates/provost-host/src",
    "crates/provost-server/src",
    "crates/provost-store/src",
];

/// Texts that stay although they break a rule: a part of the text, and the reason.
const EXCEPTIONS: &[(&str, &str)] =
    &[("approved by somebody else than who wrote it", "part of what an approval's digest covers")];

/// A shorter text is a name, not a sentence.
const WORDS_OF_A_SENTENCE: usize = 3;

/// Collects the texts of a file that people may see.
#[derive(Default)]
struct Texts {
    found: Vec<String>,
}

impl Texts {
    fn literals(&mut self, mut cursor: Cursor<'_>) {
        loop {
            if let Some((inside, _, _, rest)) = cursor.any_group() {
                self.literals(inside);
                cursor = rest;
            } else if let Some((literal, rest)) = cursor.literal() {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                self.found.extend(text.map(|text| text.value()));
                cursor = rest;
            } else if let Some((_, rest)) = cursor.token_tree() {
                cursor = rest;
            } else {
                return;
            }
        }
    }

    /// The lines of a doc comment are one text.
    fn docs(&mut self, attributes: &[syn::Attribute]) {
        let line = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        };
        let lines: Vec<String> = attributes.iter().filter_map(line).collect();
        // An empty line ends a paragraph, and a paragraph is a text of its own.
        self.found.extend(lines.split(|line| line.trim().is_empty()).map(|lines| lines.join(" ")));
    }
}

/// Returns whether clap turns the doc comments into help texts.
fn is_of_clap(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("derive") => {
            let derived = list.tokens.to_string();
            ["clap", "Parser", "Subcommand"].iter().any(|name| derived.contains(name))
        }
        _ => false,
    })
}

impl<'syntax> Visit<'syntax> for Texts {
    fn visit_item_mod(&mut self, module: &'syntax syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'syntax syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_struct(&mut self, item: &'syntax syn::ItemStruct) {
        if is_of_clap(&item.attrs) {
            self.docs(&item.attrs);
            item.fields.iter().for_each(|field| self.docs(&field.attrs));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'syntax syn::ItemEnum) {
        if is_of_clap(&item.attrs) {
            self.docs(&item.attrs);
            for variant in &item.variants {
                self.docs(&variant.attrs);
                variant.fields.iter().for_each(|field| self.docs(&field.attrs));
            }
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'syntax syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.literals(TokenBuffer::new2(list.tokens.clone()).begin());
        }
    }

    fn visit_macro(&mut self, call: &'syntax syn::Macro) {
        self.literals(TokenBuffer::new2(call.tokens.clone()).begin());
    }

    fn visit_lit_str(&mut self, text: &'syntax syn::LitStr) {
        self.found.push(text.value());
    }
}

fn texts(syntax: &syn::File) -> Vec<String> {
    let mut texts = Texts::default();
    texts.visit_file(syntax);
    texts.found.retain(|text| text.split_whitespace().count() >= WORDS_OF_A_SENTENCE);
    texts.found
}

#[test]
fn the_words_of_every_message_are_plain() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    let mut used = vec![false; EXCEPTIONS.len()];
    for source in sources() {
        if !FINISHED.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        for text in texts(&source.syntax) {
            read += 1;
            let complaints = plain_words::complaints(&text);
            match EXCEPTIONS.iter().position(|(part, _)| text.contains(part)) {
                Some(at) => used[at] |= !complaints.is_empty(),
                None => wrong.extend(
                    complaints.iter().map(|complaint| format!("{}: {complaint}", source.path.display())),
                ),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 1000, "only {read} texts were found");
    for ((part, _), used) in EXCEPTIONS.iter().zip(used) {
        assert!(used, "no text needs the exception `{part}`: take it off");
    }
}

/// Checks that this test finds the texts that it must find.
#[test]
fn texts_are_found_in_macros_attributes_and_help_and_not_in_comments_or_tests() {
    let file = syn::parse_file(
        r##"
        /// The comment of another type.
        struct Plain;
        /// The help of a command
        ///
        /// A second help paragraph.
        #[derive(clap::Args)]
        #[command(after_help = "the examples of a command")]
        struct Args {
            /// The help of an option
            option: bool,
        }
        #[derive(thiserror::Error)]
        enum Error {
            #[error("the text of an error")]
            One,
        }
        fn talk() {
            say("a text without macro", "two words");
            println!("{}", format!("a text inside {} macros", { "and one in it" }));
        }
        #[cfg(test)]
        mod tests { const TEXT: &str = "a text of a test"; }
        "##,
    )
    .expect("Rust");
    let mut found: Vec<String> = texts(&file).iter().map(|text| text.trim().to_owned()).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "A second help paragraph.",
            "The help of a command",
            "The help of an option",
            "a text inside {} macros",
            "a text without macro",
            "and one in it",
            "the examples of a command",
            "the text of an error",
        ]
    );
}
