//! git: a `pre-push` hook of the repository; appended if there is one already.

use provost_core::text::hook_protocol::HookClient;

use super::{Edit, Ground, Wanted};

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let folder = ground.workspace.join(".git");
    if ground.user || !folder.is_dir() {
        return Vec::new();
    }
    let call = format!("exec {} \"$@\"", ground.hook(HookClient::GitPrePush));
    let edits = vec![
        Edit::Whole("#!/bin/sh\n".to_owned()),
        // After the commands of an existing hook.
        Edit::Lines(format!("# provost: no push while the plan is open\n{call}\n")),
    ];
    vec![Wanted { executable: true, ..Wanted::new(folder.join("hooks/pre-push"), edits) }]
}
