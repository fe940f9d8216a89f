"""Downloads of models from the Hugging Face Hub, and removal of models from the disk: `services`."""
