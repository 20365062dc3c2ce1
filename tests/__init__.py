"""Tests of the toolkit and of the gallery."""
