"""Builds a graduated source package: a PEP 517 backend that needs Python, g++ and torch's headers alone.

Graduation writes these files into the package, with their imports of trifold made relative. It asks for nothing that
pip would have to fetch, so a build needs no network.
"""
