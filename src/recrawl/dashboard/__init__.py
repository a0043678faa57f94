"""The dashboard: pages of the service that show how a corpus is doing, and let people act.

Needs the extra ``recrawl[server]``.  A server attaches it when it starts; its templates and pages
are loaded when somebody opens it.
"""

from recrawl.dashboard.attach import attach_dashboard

__all__ = ["attach_dashboard"]
