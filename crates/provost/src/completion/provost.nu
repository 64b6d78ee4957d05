# Asks PROGRAM for completions of its own command line; other programs keep the completer they had.
$env.config.completions.external.enable = true
$env.config.completions.external.completer = do {
    let before = $env.config.completions.external.completer?
    {|words|
        if ($words | first) == "PROGRAM" {
            let found = with-env { VARIABLE: nushell } { ^COMPLETER -- ...$words | from json }
            # Without an answer nushell completes files.
            if ($found | is-empty) { null } else { $found }
        } else if $before != null {
            do $before $words
        }
    }
}
