//! How the program is linked.
//!
//! Clients start it at each end of a turn, mostly to be told that there is nothing to judge. Linked to a
//! place of its own, it needs none of the tens of thousands of addresses in its tables corrected at each
//! start, which took longer than the answer. Stack, heap and libraries are where nobody can know, as before.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    // Elsewhere the linker does not know the word, or brings its own start-up code.
    if (target("OS").as_str(), target("ENV").as_str()) == ("linux", "gnu") {
        println!("cargo::rustc-link-arg-bin=provost=-no-pie");
    }
}
