//! Shows an image of the workspace to the model.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::Workspace;
use super::{Tool, ToolAnswer};
use crate::transcript::ImageData;

/// Largest image, in bytes. Providers take a little more, but all of a conversation is sent again and again.
const LARGEST: u64 = 2 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ViewImage {
    /// Path inside the workspace of a PNG, JPEG, GIF or WebP file.
    path: String,
}

/// Images that tools want to show, until the loop sends them.
#[derive(Clone, Default)]
pub(crate) struct ImageTray(Arc<Mutex<Vec<ImageData>>>);

impl ImageTray {
    pub(crate) fn take(&self) -> Vec<ImageData> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, image: ImageData) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(image);
    }
}

pub(super) fn tool(workspace: &Workspace, tray: &ImageTray) -> Tool {
    let (workspace, tray) = (workspace.clone(), tray.clone());
    let description = "Shows you an image: PNG, JPEG, GIF or WebP, up to 2 MiB.";
    let run = move |ask: ViewImage| std::future::ready(view(&workspace, &tray, &ask));
    Tool::new("view_image", description, run).reading_only()
}

fn view(workspace: &Workspace, tray: &ImageTray, ask: &ViewImage) -> ToolAnswer {
    let path = &ask.path;
    let place = workspace.place(path)?;
    let found = fs::metadata(&place).map_err(|error| format!("`{path}`: {error}"))?;
    if !found.is_file() {
        return Err(format!("`{path}` is not a regular file"));
    }
    if found.len() > LARGEST {
        return Err(format!("`{path}` has {} bytes, too many; make a smaller copy with shell", found.len()));
    }
    let bytes = fs::read(&place).map_err(|error| format!("`{path}`: {error}"))?;
    let Some(content_type) = content_type(&bytes) else {
        return Err(format!("`{path}` is not a PNG, JPEG, GIF or WebP image"));
    };
    let name = workspace.shown(&place).to_string();
    let answer = format!("the image follows: {name} ({content_type}, {} bytes)", bytes.len());
    tray.put(ImageData { name, content_type: content_type.to_owned(), data: STANDARD.encode(bytes).into() });
    Ok(answer)
}

/// Returns the type by the first bytes, because a name may be wrong.
fn content_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_first_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(folder.path()).expect("a workspace");
        let tray = ImageTray::default();
        let look = |name: &str, bytes: &[u8]| {
            fs::write(folder.path().join(name), bytes).expect("a file");
            view(&workspace, &tray, &ViewImage { path: name.to_owned() })
        };
        for (name, bytes, kind) in [
            ("a", &b"\x89PNG\r\n"[..], "image/png"),
            ("b.png", &b"\xff\xd8\xff\xe0"[..], "image/jpeg"),
            ("c", &b"GIF89a"[..], "image/gif"),
            ("d", &b"RIFF\0\0\0\0WEBPVP8 "[..], "image/webp"),
        ] {
            let answer = look(name, bytes).expect("an answer");
            assert!(answer.starts_with(&format!("the image follows: {name} ({kind}")), "{answer}");
            let image = tray.take().remove(0);
            assert_eq!((image.content_type.as_str(), &*image.data), (kind, STANDARD.encode(bytes).as_str()));
        }
        assert!(look("e.png", b"<svg>").expect_err("no image").contains("is not a PNG"));
        let large = look("f", &vec![0; LARGEST as usize + 1]).expect_err("too large");
        assert!(large.contains("make a smaller copy"), "{large}");
        assert!(tray.take().is_empty());
        let away = view(&workspace, &tray, &ViewImage { path: "../x".to_owned() }).expect_err("away");
        assert!(away.contains("outside of the workspace"), "{away}");
    }
}
