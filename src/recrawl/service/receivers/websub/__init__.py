"""WebSub: hubs push the changes of feeds to the server, which subscribes to them.

References
----------
WebSub, W3C Recommendation of 23 January 2018
"""
