"""What anycard costs, measured beside what others cost, in the same run. README.md says how."""
