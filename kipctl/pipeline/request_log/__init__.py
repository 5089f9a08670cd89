"""Brokers' request logs (`kafka.request.logger`) into tables: what a whole fleet of clients did."""

from kipctl.pipeline.request_log.analysis import LogQuestion, analyse
from kipctl.pipeline.request_log.log import RequestLog, read_request_log

__all__ = [
    "LogQuestion",
    "RequestLog",
    "analyse",
    "read_request_log",
]
