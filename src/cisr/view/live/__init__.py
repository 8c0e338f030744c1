"""The live page: what the report says of a store, while a run goes on.

A server of the standard library, because few people read and nobody writes. `access` says who may ask, `server` what
they may ask for, `site` what there is, `feed` draws a page anew when something has changed, part by part, `stores` are
what is drawn, `pace` says how fast a run goes.
"""
