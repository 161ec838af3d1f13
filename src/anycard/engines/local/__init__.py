"""Attempts on this machine. Kept free of imports: the supervisor is started from below this package and must stay small."""
