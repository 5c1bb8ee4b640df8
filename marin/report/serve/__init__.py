"""The store in a browser: pages made on demand from what the other reports read. Read only, loopback only.

``server`` says who may ask; ``site`` finds the view of an address; ``looked`` is the store as it was a moment ago;
``step``, ``texts``, ``dropped``, ``tokens`` and ``curves`` each collect what one view shows; ``templates`` draw it.
"""
