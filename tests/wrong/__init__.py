"""Wrong implementations of the gallery's ops: what the verification must reject, and with which row."""
