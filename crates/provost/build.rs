//! Sets the version that the program prints, and its linker options.
//!
//! Clients start the program at the end of each turn, mostly to learn that there is nothing to judge, and
//! the dynamic loader then takes longer than the answer. Linked to a fixed address, the program needs none
//! of its tens of thousands of relocations. The compiler's runtime library is linked statically if this
//! machine has it, so that no file has to be found and mapped at each start. Stack, heap and the C library
//! still have random addresses.

#[path = "build_stamp.rs"]
mod build_stamp;

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build_stamp.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=PROVOST_VERSION={}{}", variable("CARGO_PKG_VERSION"), stamp(&variable));
    let is_here = variable("HOST") == variable("TARGET");
    // On other systems the linker does not know the option, or adds its own start-up code.
    if ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(variable) != ["linux", "gnu"] {
        return;
    }
    println!("cargo::rustc-link-arg-bin=provost=-no-pie");
    // For another machine it is unknown which libraries exist.
    if !is_here {
        return;
    }
    // Redirects the shared library to the static one: a library file may be a text that names other
    // libraries.
    let folder = variable("OUT_DIR");
    let text = archived("libgcc_eh.a").map(|path| format!("GROUP ( {path} -lgcc )\n"));
    let written = text.map(|text| std::fs::write(Path::new(&folder).join("libgcc_s.so"), text));
    if matches!(written, Some(Ok(()))) {
        println!("cargo::rustc-link-arg-bin=provost=-L{folder}");
    }
}

/// Returns the commit and the date of a release build. A debug build has none: it would be linked again after
/// each commit.
fn stamp(variable: &dyn Fn(&str) -> String) -> String {
    if variable("PROFILE") != "release" {
        return String::new();
    }
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(log) = build_stamp::git(&root, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", root.join(log).display());
    }
    build_stamp::stamp(&root, variable("SOURCE_DATE_EPOCH").parse().ok())
}

/// Returns the path of the static library, if the compiler finds it.
fn archived(name: &str) -> Option<String> {
    let asked = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    (Path::new(&path).is_absolute() && !path.contains(char::is_whitespace)).then_some(path)
}
