"""What a cause of the catalog does to a job."""
