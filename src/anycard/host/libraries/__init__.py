"""Libraries that answer inside our own process: a file each, with ``look() -> Json``. Their raw answers are what a bundle keeps, so that a
recorded host gives the same ones again."""
