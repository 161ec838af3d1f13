"""Moved: see i18n/words.py."""

from anycard.i18n.words import *  # noqa: F403
