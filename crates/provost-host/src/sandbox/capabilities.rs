//! Gives up root's rights.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// Gives up all capabilities. `no_new_privs` makes sure that no program that is started gets them back.
pub(super) fn give_up() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in CapabilitySet::all().iter() {
        // Fails for users other than root, and is not needed for them.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}
