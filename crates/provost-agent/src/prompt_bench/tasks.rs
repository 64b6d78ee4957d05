//! Twenty small tasks with a check each. No check runs what an agent wrote: it only reads files.

/// A task for one file.
pub(super) struct SmallTask {
    pub(super) words: &'static str,
    pub(super) file: &'static str,
    /// Content that the check accepts.
    pub(super) right: &'static str,
    /// Shell command that holds when the task is done.
    pub(super) check: &'static str,
}

const fn task(
    words: &'static str,
    file: &'static str,
    right: &'static str,
    check: &'static str,
) -> SmallTask {
    SmallTask { words, file, right, check }
}

pub(super) const TASKS: [SmallTask; 20] = [
    task("Write the word hello into hello.txt.", "hello.txt", "hello\n", "grep -qx hello hello.txt"),
    task(
        "Write the numbers 1 to 5 into numbers.txt, one per line.",
        "numbers.txt",
        "1\n2\n3\n4\n5\n",
        "test \"$(cat numbers.txt)\" = \"$(seq 5)\"",
    ),
    task("Write the sum of 17 and 25 into sum.txt.", "sum.txt", "42\n", "test \"$(cat sum.txt)\" = 42"),
    task(
        "Write the product of 12 and 12 into product.txt.",
        "product.txt",
        "144\n",
        "test \"$(cat product.txt)\" = 144",
    ),
    task(
        "Write the words pear, apple and fig into fruit.txt, sorted, one per line.",
        "fruit.txt",
        "apple\nfig\npear\n",
        "test \"$(cat fruit.txt)\" = \"$(printf 'apple\\nfig\\npear')\"",
    ),
    task(
        "Write the word provost backwards into back.txt.",
        "back.txt",
        "tsovorp\n",
        "test \"$(cat back.txt)\" = \"$(echo provost | rev)\"",
    ),
    task(
        "Write the word silent in capital letters into loud.txt.",
        "loud.txt",
        "SILENT\n",
        "grep -qx SILENT loud.txt",
    ),
    task(
        "Write data.json: an object with the key name and the value ada.",
        "data.json",
        "{\"name\": \"ada\"}\n",
        "test \"$(tr -d ' \\n' < data.json)\" = '{\"name\":\"ada\"}'",
    ),
    task(
        "Write table.csv: the header a,b and one row with 1 and 2.",
        "table.csv",
        "a,b\n1,2\n",
        "test \"$(cat table.csv)\" = \"$(printf 'a,b\\n1,2')\"",
    ),
    task(
        "Write notes/today.md, in a new folder, with the heading Today.",
        "notes/today.md",
        "# Today\n",
        "grep -qx '# Today' notes/today.md",
    ),
    task(
        "Write seven lines into lines.txt, each with the letter x.",
        "lines.txt",
        "x\nx\nx\nx\nx\nx\nx\n",
        "test \"$(grep -cx x lines.txt)\" = 7",
    ),
    task(
        "Write the first five square numbers into squares.txt, one per line.",
        "squares.txt",
        "1\n4\n9\n16\n25\n",
        "test \"$(cat squares.txt)\" = \"$(printf '1\\n4\\n9\\n16\\n25')\"",
    ),
    task(
        "Write config.ini with a section server and the key port set to 8080.",
        "config.ini",
        "[server]\nport = 8080\n",
        "grep -qx '\\[server\\]' config.ini && grep -qE '^port *= *8080$' config.ini",
    ),
    task(
        "Write the number of days of a leap year into days.txt.",
        "days.txt",
        "366\n",
        "test \"$(cat days.txt)\" = 366",
    ),
    task(
        "Write the number 255 in hexadecimal, in small letters and without a prefix, into hex.txt.",
        "hex.txt",
        "ff\n",
        "test \"$(cat hex.txt)\" = ff",
    ),
    task(
        "Write list.md: a list with two items, alpha and beta, each line with a dash.",
        "list.md",
        "- alpha\n- beta\n",
        "test \"$(cat list.md)\" = \"$(printf -- '- alpha\\n- beta')\"",
    ),
    task(
        "Write the even numbers from 2 to 10 into even.txt, in one line, with spaces.",
        "even.txt",
        "2 4 6 8 10\n",
        "test \"$(cat even.txt)\" = '2 4 6 8 10'",
    ),
    task(
        "Write greeting.py: a function greet that returns the text hi.",
        "greeting.py",
        "def greet():\n    return \"hi\"\n",
        "grep -qE '^def greet\\(\\)' greeting.py && grep -qE \"return ['\\\"]hi['\\\"]\" greeting.py",
    ),
    task(
        "Write version.txt with the text 1.2.3 and no newline at its end.",
        "version.txt",
        "1.2.3",
        "test \"$(wc -c < version.txt)\" -eq 5 && grep -q '^1\\.2\\.3$' version.txt",
    ),
    task(
        "Write the last three letters of the alphabet into last.txt, one per line, z first.",
        "last.txt",
        "z\ny\nx\n",
        "test \"$(cat last.txt)\" = \"$(printf 'z\\ny\\nx')\"",
    ),
];
