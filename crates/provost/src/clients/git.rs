//! git: a `pre-push` hook of the repository. provost's line comes before the commands of an existing one.

use provost_core::text::hook_protocol::HookClient;

use super::{Edit, Ground, Wanted};

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let refused = |why: String| {
        vec![Wanted::new(ground.workspace.join(".git/hooks/pre-push"), vec![Edit::Refused(why)])]
    };
    if ground.user {
        return refused("a pre-push hook belongs to one repository; leave out --user".to_owned());
    }
    match ground.hooks_folder() {
        Err(why) => refused(why),
        Ok(folder) => {
            // The names of the refs are for the commands after it.
            let call = format!("{} \"$@\" </dev/null || exit $?", ground.hook(HookClient::GitPrePush));
            let lines = format!("# provost: no push while the plan is open\n{call}\n");
            let ours = format!(" hook {}", HookClient::GitPrePush.word());
            let edits = vec![Edit::Call { lines, ours }];
            vec![Wanted { executable: true, ..Wanted::new(folder.join("pre-push"), edits) }]
        }
    }
}
