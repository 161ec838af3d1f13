"""anycard: one task, any card. A self-hosted GPU service platform for one machine that grows to a cluster.

For programs that run under it: ``anycard.checkpoint`` and ``anycard.bad_input``.
"""

TYPE_CHECKING = False  # type checkers know the name; importing typing costs every verb 10 ms
if TYPE_CHECKING:
    from anycard._bad_input import bad_input as bad_input

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> object:
    """Loads ``bad_input`` when it is first asked for: every verb imports this package."""
    if name == "bad_input":
        from anycard._bad_input import bad_input

        return bad_input
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
