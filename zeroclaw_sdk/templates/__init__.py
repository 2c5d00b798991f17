"""Files of new plugins; ``{{word}}`` stands for what :mod:`zeroclaw_sdk.scaffold` fills in."""
