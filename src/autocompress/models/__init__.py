"""The canonical torch model. Importing this lets transformers' ``Auto`` classes load it."""

from autocompress.models.registration import register

register()
