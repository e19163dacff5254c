"""Gives the tables of LocalStack on-demand backups.

LocalStack passes these calls on to DynamoDB Local, which does not know them. As on AWS, a
restored table has the keys, the indexes and the items of the backup. It has no stream, no
time to live, no tags and no recovery. Other than on AWS, it is paid by request whatever the
backup was, and a backup is complete at once.
"""

from datetime import UTC, datetime
from uuid import uuid4

from localstack.runtime import hooks

# What a backup records of a table, besides its items. DescribeTable has more in each.
RECORDED = {"AttributeDefinitions": None, "KeySchema": None,
            "GlobalSecondaryIndexes": ("IndexName", "KeySchema", "Projection"),
            "LocalSecondaryIndexes": ("IndexName", "KeySchema", "Projection")}


def settings(table):
    made = {}
    for name, fields in RECORDED.items():
        if name in table:
            made[name] = [{f: one[f] for f in fields} for one in table[name]] if fields else table[name]
    return made


@hooks.on_infra_start()
def keep_backups():
    from localstack.aws.api.dynamodb import BackupNotFoundException
    from localstack.aws.connect import connect_to
    from localstack.services.dynamodb.v2.provider import DynamoDBProvider

    backups = {}  # by ARN: the details, the settings, the items

    def find(arn):
        if arn not in backups:
            raise BackupNotFoundException(f"Backup not found: {arn}")
        return backups[arn]

    def database(context):
        return connect_to(aws_access_key_id=context.account_id, region_name=context.region).dynamodb

    def create_backup(self, context, table_name, backup_name, **_):
        db = database(context)
        table = db.describe_table(TableName=table_name)["Table"]
        items = [item for page in db.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
                 for item in page["Items"]]
        details = {"BackupArn": f"{table['TableArn']}/backup/{uuid4()}", "BackupName": backup_name,
                   "BackupStatus": "AVAILABLE", "BackupType": "USER", "BackupSizeBytes": table["TableSizeBytes"],
                   "BackupCreationDateTime": datetime.now(UTC)}
        backups[details["BackupArn"]] = details, settings(table), items
        return {"BackupDetails": details}

    def describe_backup(self, context, backup_arn, **_):
        return {"BackupDescription": {"BackupDetails": find(backup_arn)[0]}}

    def restore_table_from_backup(self, context, target_table_name, backup_arn, **_):
        _, table, items = find(backup_arn)
        db = database(context)
        made = db.create_table(TableName=target_table_name, BillingMode="PAY_PER_REQUEST", **table)
        for item in items:
            db.put_item(TableName=target_table_name, Item=item)
        return {"TableDescription": made["TableDescription"]}

    for operation in create_backup, describe_backup, restore_table_from_backup:
        setattr(DynamoDBProvider, operation.__name__, operation)
