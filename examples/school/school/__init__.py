"""A school that e-mails its students: the example of workflows and batches."""
