"""Find the code that would build a step's output, by reading source and never by importing it.

Input: a step. Output: a ``CodeFingerprint``, with a digest for each definition that the step's class, the classes of
its fields' values and its artifact reach. ``closure`` follows the code, ``normalize`` drops the parts that do not
count, and ``origin`` says where following stops. Code that the analysis cannot see through is listed in ``opaque``, or
observed while the step runs.
"""
