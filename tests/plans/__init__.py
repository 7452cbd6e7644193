"""The pages that each statement reads, whatever the planner believes of the tables."""
