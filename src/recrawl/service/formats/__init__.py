"""The formats of bodies: JSON, JSON lines and Arrow, within limits."""
