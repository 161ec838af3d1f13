"""One file a revision, rNNNN_what.py; its name goes into REVISIONS of schema.py too."""
