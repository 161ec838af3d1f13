"""What a job made of its cards and CPUs, told after it (or while it runs): where time and memory went, and what to change.

moments.py lays readings over what was held; figures.py sums; findings.py says it in words. All of that is pure. views.py is the JSON.
"""
