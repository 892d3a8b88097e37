"""Values that calls take and return, apart from how they travel."""
