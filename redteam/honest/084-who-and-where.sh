# title: a test that reads its user, its home, the host name and a time zone
# touches: zone.py
# needs: python3 -c "import zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin')"
project() { echo 'ZONE = "UTC"' > zone.py; }
contract() {
  id -un && hostname > /dev/null && test -w "$HOME" || exit 1
  python3 - <<'PY'
  import datetime, getpass, os, socket, zoneinfo
  import zone

  assert getpass.getuser() and socket.gethostname() and os.path.isdir(os.path.expanduser("~"))
  noon = datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo(zone.ZONE))
  assert noon.utcoffset() == datetime.timedelta(hours=2)
  PY
}
work() { echo 'ZONE = "Europe/Berlin"' > zone.py; }
