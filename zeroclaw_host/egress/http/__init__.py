"""HTTP/1.1 of instances: messages as values, a body's two buffers, the wire that the I/O loop drives, the exchange over it."""
