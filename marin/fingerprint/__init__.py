"""Which code would build a step's output: found by reading source, never by importing it.

Enters: a step. Leaves: ``CodeFingerprint``, a digest for each definition that the step's class, the classes of its
fields' values and its artifact reach. ``closure`` says what is followed, ``normalize`` what of it counts, ``origin``
where following stops. What analysis cannot see is listed in ``opaque``, or observed while the step runs.
"""
