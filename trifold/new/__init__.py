"""``trifold new``: a workspace, or the five files of an op, that build and pass ``trifold verify`` as generated."""
