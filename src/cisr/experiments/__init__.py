"""What is found out with students: studies (Algorithm 1), comparisons, reproductions, speed, and their statistics.

May import everything but view and the command line.
"""
