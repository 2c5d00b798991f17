"""The maintainer's side of a registry: a directory of files that any web server can hand out.

::

    registry.json          the index that clients read
    packages/*.zip         archives, named by package and version
    publishers/*.pub       public keys (64 hexadecimal digits each) of those whose packages are accepted

Without publisher keys every validly signed package is accepted, whoever signed it.
"""
