"""What each vendor's models take and refuse: one table a family, found by the model's name.

To add a model, put a row into its family's table, above the row that it would match otherwise, with
the date and the source. A name newer than the table matches the family's last row, which holds the
newest rules. A name of no family gets `unknown`, the common ground.
"""
