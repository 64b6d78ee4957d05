# title: a database with its journal, made by the work
# touches: data/**
# needs: python3 -c "import sqlite3"
project() { mkdir data; echo x > data/keep; }
contract() {
  python3 -c 'import sqlite3; assert sqlite3.connect("data/app.db").execute("SELECT sum(n) FROM t").fetchone() == (6,)'
}
work() { python3 -c 'import sqlite3; db = sqlite3.connect("data/app.db"); db.execute("PRAGMA journal_mode=WAL"); db.execute("CREATE TABLE t (n)"); db.executemany("INSERT INTO t VALUES (?)", [(1,), (2,), (3,)]); db.commit()'; }
