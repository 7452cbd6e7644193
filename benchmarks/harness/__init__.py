"""What all benchmarks share: a server, workers, backlogs, CPU seconds, and the table they print.

Machines drift, by a factor of two within minutes on a shared host. So each figure is measured
several times, in turn with its counterpart (the raw SQL of the same statements, or a peer), and the
ratio is the median of the turns' ratios. CPU microseconds a row drift less than rates do.
"""
