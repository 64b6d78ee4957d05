# Does nothing at all.
true
