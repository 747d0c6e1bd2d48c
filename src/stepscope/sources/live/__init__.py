"""What a live job left, or is leaving: the segments of its ranks become a Run, without waiting for an end that may never come."""
