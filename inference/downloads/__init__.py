"""Models from the Hugging Face Hub onto this machine's disk, and off it again: `services`."""
