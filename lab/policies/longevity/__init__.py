"""The policies of Longevity (Olston and Pandey), on recorded and simulated pages."""
