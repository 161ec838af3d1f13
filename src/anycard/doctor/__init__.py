"""Why a card does not work, and how to mend it: evidence -> sightings and facts -> findings -> a diagnosis.

``reading`` opens what people hand over, ``scan`` finds in one pass every line that any rule cares about, ``facts`` types what was seen,
``rules/`` holds what the field knows (one file a family), ``reason`` ranks. Only ``reading`` and ``live`` touch the machine.
"""
