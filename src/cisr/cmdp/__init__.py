"""The intervention-induced CMDP M_i: on Gymnasium environments, on compiled ones, and of finite models.

May import core and system; knows neither students nor curricula.
"""
