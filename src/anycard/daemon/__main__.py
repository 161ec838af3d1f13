import sys

from anycard.daemon.main import main

sys.exit(main())
