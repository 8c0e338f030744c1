"""What is asked of the machine: files written whole, signals, the cache of compiled programs.

May import core.
"""
