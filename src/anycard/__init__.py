"""anycard: one task, any card. A self-hosted GPU service platform for one machine that grows to a cluster."""

__version__ = "0.1.0.dev0"
