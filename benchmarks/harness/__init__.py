"""The parts that all benchmarks share: server, workers, backlogs, CPU seconds, the printed table.

Machines drift, by a factor of two within minutes on a shared host. So each figure is measured
several times, in turns with its counterpart (the raw SQL of the same statements, or a peer), and
the ratio is the median of the turns' ratios. CPU microseconds per row drift less than rates.
"""
