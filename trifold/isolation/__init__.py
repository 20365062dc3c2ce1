"""The process in which an op runs: it returns results as bytes, and contains nothing that judges them.

``server`` runs in the op's process and imports what :func:`trifold.load` imports; ``channel`` and ``tensors`` define
the messages. The judge's side is :mod:`trifold.verification.remote`.
"""
