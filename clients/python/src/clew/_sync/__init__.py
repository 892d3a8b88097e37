"""The synchronous client. `generate.py` makes it of `_aio`, except for `channel.py`."""
