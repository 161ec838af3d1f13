"""Started by path with ``python -I -S``, which looks into no site-packages: finds its own package first."""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        package_root = os.path.abspath(__file__)
        for _ in range(5):  # .../anycard/engines/local/supervisor/__main__.py
            package_root = os.path.dirname(package_root)
        sys.path.insert(0, package_root)
    from anycard.engines.local.supervisor.loop import main

    sys.exit(main(sys.argv[1:]))
