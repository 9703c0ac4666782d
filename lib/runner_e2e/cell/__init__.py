"""Run one cell: directories, processes, deadlines and cancellation of its attempts. It formats no report."""
