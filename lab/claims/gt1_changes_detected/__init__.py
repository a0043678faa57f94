"""How many changes a crawler finds that visits pages by estimated rates."""
