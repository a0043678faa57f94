"""Hold-out experiments: a share of hosts keeps the old rule, and audits compare both arms."""
