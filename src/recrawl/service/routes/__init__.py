"""The paths of the service, one module for each group of them."""
