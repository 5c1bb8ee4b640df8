"""The store in a browser: pages made on demand, from the same data as the other reports. Read only, loopback only.

``server`` decides which requests are answered; ``site`` finds the view of an address; ``looked`` is the store as it was
a moment ago; ``step``, ``texts``, ``dropped``, ``tokens`` and ``curves`` collect the content of one view each;
``templates`` draw it.
"""
