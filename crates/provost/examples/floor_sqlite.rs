//! A program that opens a log read-only and counts its plans: the floor of `provost status`.

use rusqlite::{Connection, OpenFlags};

fn main() {
    let path = std::env::args_os().nth(1).expect("the path of a database");
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a database");
    let plans: i64 = connection.query_row("SELECT count(*) FROM plan", [], |row| row.get(0)).expect("a log");
    println!("{plans}");
}
