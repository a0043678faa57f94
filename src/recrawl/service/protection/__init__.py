"""What protects a server and shows who used it: rates, proxies, last uses, the audit log."""
