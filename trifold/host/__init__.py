"""The port's C++ on the CPU: how calls of a checked port run, and what they find."""
