"""The lab about the price of WSGI: the numbered pages behind it."""
