"""Builds a graduated source package: a PEP 517 backend that needs only Python, g++ and torch's headers.

Graduation writes these files into the package, with relative imports. The backend requires nothing that pip would have
to download, so a build needs no network.
"""
