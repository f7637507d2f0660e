"""Batch APIs: rows that a vendor answers within a day, at half the price, and that are paid once.

Read `batch.py` for how jobs are submitted, found again and repeated, `record.py` for the file that records
them, and `apis.py` for the four vendors.
"""

from llmstream.batches.batch import Batch, BatchProgress, submit

__all__ = ["Batch", "BatchProgress", "submit"]
