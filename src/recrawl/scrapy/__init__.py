"""Scrapy add-on: a spider fetches only what is worth fetching.

Enable it with one line of the project's settings::

    ADDONS = {"recrawl.scrapy.Addon": 500}

Needs the extra ``recrawl[scrapy]``.
"""

from recrawl.scrapy.addon import Addon
from recrawl.scrapy.exports import DropUnchanged
from recrawl.scrapy.observer import ObserverMiddleware
from recrawl.scrapy.politeness.host_delays import HostDelayMiddleware
from recrawl.scrapy.politeness.robots import RobotsMiddleware
from recrawl.scrapy.scheduler import RecrawlScheduler
from recrawl.scrapy.spider_output import SpiderOutputMiddleware
from recrawl.scrapy.spiders import RefreshSpider

__all__ = [
    "Addon",
    "DropUnchanged",
    "HostDelayMiddleware",
    "ObserverMiddleware",
    "RecrawlScheduler",
    "RefreshSpider",
    "RobotsMiddleware",
    "SpiderOutputMiddleware",
]
