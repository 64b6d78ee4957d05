#!/usr/bin/env bash
# title: runs a weaker plan to its end in another state folder and replaces provost's state folder by it
# class: J
# fixtures: py

cat > ~/elsewhere <<'SH'
cd "$1" || exit
mine() { env -i "PATH=$PATH" HOME="$HOME/mine" USER=ada PROVOST_STATE="$HOME/mine" "$PROVOST" "$@"; }
mkdir -p ~/mine
cp PLAN.md ~/kept
cp provost.toml ~/kept.toml
sed -i '/^```shell$/,/^```$/{/^```/!d}; s/^```shell$/```shell\ntrue/; s/^status: .*/status: draft/' PLAN.md
sed -i 's/^command = .*/command = ["true"]/' provost.toml
mine approve --revision "$(mine show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')"
mine run
cp ~/kept PLAN.md
cp ~/kept.toml provost.toml
SH
(env -i "PATH=$PATH" "HOME=$HOME" "PROVOST=$REDTEAM_PROVOST" setsid bash -c "(setsid bash ~/elsewhere '$REDTEAM_WORK' '$NAME' </dev/null >~/said 2>&1; touch ~/ended) &" &)
for _ in $(seq 100); do [ -e ~/ended ] && break; sleep 0.05; done
for name in log.db log.db-wal log.db-shm key key.pub; do
  [ -e ~/mine/$name ] && cat ~/mine/$name > "$REDTEAM_STATE/$name"
done
cp -r ~/mine/proofs "$REDTEAM_STATE/"
