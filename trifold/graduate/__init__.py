"""Graduation: a wheel of verified ops, without trifold in it; see :mod:`trifold.graduate.graduate`."""
