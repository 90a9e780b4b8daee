"""The formats of the data in docs/data, and what each file comes from."""
