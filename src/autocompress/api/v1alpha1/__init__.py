"""``CompressionJob`` of ``autocompress.dev/v1alpha1``, as a user writes it for either runner."""

from autocompress.api.v1alpha1.job import API_VERSION, GROUP, KIND, CompressionJob

__all__ = ["API_VERSION", "GROUP", "KIND", "CompressionJob"]
