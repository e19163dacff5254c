"""Feeds what a table's stream has to the usage aggregator of the Python package,
as AWS Lambda would: python aggregator.py TABLE.

Where the table is, and with which credentials, is in the environment. What the
handler answers is printed as JSON, with the number of records that the event
source's filter let through.
"""

import json
import os
import sys

import boto3


def records(table):
    """All records of the stream of a table, shard by shard, as GetRecords has them."""
    streams = boto3.client("dynamodbstreams")
    (stream,) = streams.list_streams(TableName=table)["Streams"]
    shards, start = [], {}
    while True:
        page = streams.describe_stream(StreamArn=stream["StreamArn"], **start)["StreamDescription"]
        shards += page["Shards"]
        if "LastEvaluatedShardId" not in page:
            break
        start = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}
    for shard in shards:
        iterator = streams.get_shard_iterator(
            StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON",
        )["ShardIterator"]
        while iterator:
            page = streams.get_records(ShardIterator=iterator, Limit=100)
            if not page["Records"]:
                break  # an open shard has no end
            for record in page["Records"]:
                yield stream["StreamArn"], record
            iterator = page.get("NextShardIterator")


def event_record(arn, record):
    """A record in the form in which Lambda hands it over."""
    data = dict(record["dynamodb"])
    data["ApproximateCreationDateTime"] = data["ApproximateCreationDateTime"].timestamp()
    return {**record, "eventSourceARN": arn, "dynamodb": data}


def main():
    table = sys.argv[1]
    os.environ.update(TABLE_NAME=table, SNAPSHOT_WINDOWS="daily")
    from zae_limiter_aggregator.handler import handler  # reads the environment

    # The filter of the package's template for what is no audit event.
    passed = [
        event_record(arn, record) for arn, record in records(table)
        if record["eventName"] == "MODIFY" and record["dynamodb"]["NewImage"]["SK"]["S"] == "#STATE"
    ]
    # Its log goes where it is read when something fails.
    stdout, sys.stdout = sys.stdout, sys.stderr
    body = handler({"Records": passed}, None)["body"]
    print(json.dumps({"passed": len(passed), **body}), file=stdout)


if __name__ == "__main__":
    main()
