"""Tests of the process in which an op runs."""
