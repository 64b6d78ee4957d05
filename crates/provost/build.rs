//! How the program is linked.
//!
//! Clients start it at each end of a turn, mostly to be told that there is nothing to judge: what the loader
//! does then takes longer than the answer. Linked to a place of its own, the program needs none of the tens of
//! thousands of addresses in its tables corrected. The compiler's run-time library is in the program, where
//! this machine has it to put there, instead of in a file that has to be found and mapped each time. Stack,
//! heap and the C library are where nobody can know, as before.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_here = variable("HOST") == variable("TARGET");
    // Elsewhere the linker does not know the word, or brings its own start-up code.
    if ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(variable) != ["linux", "gnu"] {
        return;
    }
    println!("cargo::rustc-link-arg-bin=provost=-no-pie");
    // For another machine nobody knows what there is.
    if !is_here {
        return;
    }
    // Whoever asks for the shared one is given the other: a library may be a text that names libraries.
    let folder = variable("OUT_DIR");
    let text = archived("libgcc_eh.a").map(|path| format!("GROUP ( {path} -lgcc )\n"));
    let written = text.map(|text| std::fs::write(Path::new(&folder).join("libgcc_s.so"), text));
    if matches!(written, Some(Ok(()))) {
        println!("cargo::rustc-link-arg-bin=provost=-L{folder}");
    }
}

/// Where the compiler finds it, if it does.
fn archived(name: &str) -> Option<String> {
    let asked = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    (Path::new(&path).is_absolute() && !path.contains(char::is_whitespace)).then_some(path)
}
