"""Batch APIs: rows that a vendor answers within a day, at half the price, and that are paid once.

Read `batch.py` for what is submitted, found again and repeated, `record.py` for the file by which that works,
and `apis.py` for the four vendors.
"""

from llmstream.batches.batch import Batch, BatchProgress, submit

__all__ = ["Batch", "BatchProgress", "submit"]
