"""An op in a process of its own: what it computes comes back as bytes, and nothing there can judge it.

``server`` runs in the op's process and imports what :func:`trifold.load` imports; ``channel`` and ``tensors`` are the
form of what is sent. The judge's side is :mod:`trifold.verification.remote`.
"""
