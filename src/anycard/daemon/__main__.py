import logging
import os

from anycard.daemon.main import main

code = main()
logging.shutdown()
os._exit(code)  # all is recorded; a job file's check that still looks for files in a thread must not keep the process
