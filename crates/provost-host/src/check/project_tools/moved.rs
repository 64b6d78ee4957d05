//! Makes a copy of a virtual environment work at its new place.

use std::fs;
use std::io;
use std::path::Path;

/// Longest first line of a script that is rewritten, in bytes.
const LINE_MAX: usize = 512;

/// Lets the scripts of a virtual environment that was copied to `root` start its own Python. Their first
/// lines name the place it was made at, where an agent may have put another one.
pub(crate) fn move_programs(root: &Path) -> io::Result<()> {
    if !root.join("pyvenv.cfg").is_file() {
        return Ok(());
    }
    for entry in fs::read_dir(root.join("bin"))?.flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = fs::read(&path)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let interpreter = line.strip_prefix(b"#!").filter(|line| line.len() <= LINE_MAX);
        let Some(interpreter) = interpreter.and_then(|line| std::str::from_utf8(line).ok()) else { continue };
        let own = Path::new(interpreter.trim()).file_name().map(|name| root.join("bin").join(name));
        let is_of_environment = interpreter.trim().rsplit('/').nth(1) == Some("bin")
            && interpreter.contains("/bin/python")
            && !interpreter.trim().contains(' ');
        if let Some(own) = own.filter(|own| is_of_environment && own.exists()) {
            let mut moved = format!("#!{}", own.display()).into_bytes();
            moved.extend_from_slice(&bytes[line.len()..]);
            let permissions = fs::metadata(&path)?.permissions();
            fs::write(&path, moved)?;
            fs::set_permissions(&path, permissions)?;
        }
    }
    Ok(())
}
