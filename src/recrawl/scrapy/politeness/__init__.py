"""Politeness for any Scrapy project: robots.txt as RFC 9309 says, Retry-After and Crawl-delay."""

from recrawl.scrapy.politeness.host_delays import HostAsksToWait, HostDelayMiddleware
from recrawl.scrapy.politeness.robots import DisallowedByRobots, RobotsMiddleware

__all__ = ["DisallowedByRobots", "HostAsksToWait", "HostDelayMiddleware", "RobotsMiddleware"]
