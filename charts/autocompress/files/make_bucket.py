"""Makes the bucket of the evaluation MinIO, once its server answers."""

from __future__ import annotations

import os
import sys

import urllib3
from minio import Minio


def main() -> None:
    """Makes the bucket that the environment names, unless it is there."""
    client = Minio(
        os.environ["MINIO_HOST"],
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        secure=False,
        http_client=urllib3.PoolManager(
            timeout=10.0,
            retries=urllib3.Retry(total=12, backoff_factor=0.5, status_forcelist=(500, 503)),
        ),
    )
    bucket = os.environ["BUCKET"]
    if not client.bucket_exists(bucket_name=bucket):
        client.make_bucket(bucket_name=bucket)
    sys.stdout.write(f"bucket {bucket} is there\n")


main()
