"""What a machine has, which cells of the matrix it can run, and the exact command that installs what it lacks."""
